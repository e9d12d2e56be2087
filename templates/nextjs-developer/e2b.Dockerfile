FROM node:24-slim

ENV NEXT_TELEMETRY_DISABLED=1

COPY compile_page.sh /compile_page.sh
RUN chmod +x /compile_page.sh

WORKDIR /home/user/nextjs-app

RUN npx --yes create-next-app@14.2.20 . --ts --tailwind --no-eslint --import-alias "@/*" --use-npm --no-app --no-src-dir
COPY utils.ts lib/utils.ts

# What components of shadcn are made of.
RUN npm install --no-audit --no-fund class-variance-authority clsx tailwind-merge tailwindcss-animate lucide-react radix-ui recharts

# The project is the home directory.
RUN mv /home/user/nextjs-app/* /home/user/ && rm -rf /home/user/nextjs-app && chown -R user:user /home/user
WORKDIR /home/user
USER user
