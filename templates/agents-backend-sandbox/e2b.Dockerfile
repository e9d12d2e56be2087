FROM node:24

# code-server without what only other systems need, and without VS Code's AI features, which are off.  Nothing is compiled but the
# writer of its logs and the watchdog of its extension host: what else npm would compile is not used on a server.
RUN npm install --prefix /opt/code-server --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error code-server@4.139.1 \
 && cd /opt/code-server/node_modules/code-server/lib/vscode \
 && npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error \
 && npm rebuild --nodedir=/usr/local --loglevel=error @vscode/spdlog @vscode/native-watchdog \
 && rm -rf node_modules/@github node_modules/@microsoft/mxc-sdk node_modules/@vscode/windows-process-tree extensions/copilot \
 && rm -rf node_modules/@vscode/*/build/Release/obj* node_modules/@vscode/spdlog/deps \
 && find node_modules/@vscode/ripgrep-universal/bin node_modules/node-pty/prebuilds -mindepth 1 -maxdepth 1 ! -name "linux-$(node -p process.arch)" -exec rm -rf {} + \
 && (cd extensions && npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error && node postinstall.mjs >/dev/null) \
 && find /opt/code-server -name '*.map' -delete \
 && ln -sf code-linux.sh bin/remote-cli/code-server && ln -sf browser-linux.sh bin/helpers/browser.sh \
 && ln -s "$PWD/node_modules/@vscode/ripgrep-universal/bin/linux-$(node -p process.arch)/rg" /usr/local/bin/rg \
 && rm -rf /root/.npm

# Command lines of agents, each with the program for this machine only.
RUN npm install --global --no-audit --no-fund --loglevel=error @anthropic-ai/claude-code @openai/codex && rm -rf /root/.npm \
 && claude --version && codex --version

# The user's project is in /workspace.  Tokens come when a sandbox is created.
RUN useradd --create-home --user-group --shell /bin/bash pn && install -d -o pn -g pn /workspace \
 && echo 'pn ALL=(ALL:ALL) NOPASSWD: ALL' > /etc/sudoers.d/pn && chmod 440 /etc/sudoers.d/pn \
 && install -d -m 750 -o root -g pn /etc/sandglass/tokens

COPY services.json /etc/sandglass/services.json
COPY --chmod=755 services /opt/sandglass/services
COPY code /opt/sandglass/code
RUN install -D -o pn -g pn -m 644 /opt/sandglass/code/settings.json /home/pn/.local/share/code-server/User/settings.json \
 && chown -R pn:pn /home/pn
COPY --chmod=755 sandglass-mcp /usr/local/bin/sandglass-mcp

ENV DISABLE_AUTOUPDATER=1
USER pn
WORKDIR /workspace
