FROM e2bdev/base

# pip may write where Debian's packages are: a sandbox is nobody's system.
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore

# Packages of Python: docs/code-packages.md. The JDK wants a directory for its manual pages.
RUN mkdir -p /usr/share/man/man1 && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-unsafe-io \
    python3-ipykernel python3-ipython python3-matplotlib-inline python3-orjson \
    python3-numpy python3-pandas python3-matplotlib python3-pil python3-scipy python3-sympy python3-seaborn python3-plotly \
    python3-sklearn python3-skimage python3-opencv python3-imageio python3-numba python3-joblib python3-xarray python3-nltk \
    python3-soundfile python3-openpyxl python3-xlrd python3-docx python3-bs4 python3-requests python3-urllib3 \
    python3-aiohttp python3-tornado python3-tz python3-pytest fonts-noto-cjk \
    openjdk-21-jdk-headless r-base-core r-cran-irkernel \
    libzmq5 curl git jq procps sudo util-linux \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log

WORKDIR /opt/sandglass/interpreter
COPY bash bash
COPY java java
COPY javascript javascript
COPY python python
COPY r r
COPY sandglass-interpreter sandglass-interpreter

# Kernels are found by their names. What the languages and their libraries would make at their first use is made here.
RUN for kernel in bash:bash java:java javascript:javascript python:python3 r:ir; do \
      install -D -m 644 ${kernel%:*}/kernel.json /usr/local/share/jupyter/kernels/${kernel#*:}/kernel.json; \
    done \
 && cc -shared -fPIC -O2 -Wall -Wextra -Werror -I/usr/include/node -o javascript/entropy.node javascript/entropy.c \
 && npm ci --prefix javascript --no-audit --no-fund --loglevel=error && rm -rf /root/.npm \
 && sh java/build \
 && python3 -m compileall -q python bash \
 && python3 -c 'import matplotlib.font_manager'

USER user
WORKDIR /home/user
