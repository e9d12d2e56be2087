FROM e2bdev/base

COPY --chmod=755 mcp-gateway /usr/local/bin/mcp-gateway
