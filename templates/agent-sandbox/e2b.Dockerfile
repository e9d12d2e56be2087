FROM node:24

# The SDK is where programs below /home/user find it, too.
WORKDIR /home/user
COPY --chown=user:user package.json package.json
USER user
RUN npm install --omit=dev --no-audit --no-fund --loglevel=error && rm -rf .npm && mkdir workspace

# A token may come when a sandbox is created.
USER root
RUN install -d /opt/sandglass/agent && ln -s /home/user/node_modules /opt/sandglass/agent/node_modules \
 && install -d -m 750 -o root -g user /etc/sandglass/tokens
COPY services.json /etc/sandglass/services.json
COPY server.mjs /opt/sandglass/agent/server.mjs

USER user
