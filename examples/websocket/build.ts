// Makes the template of the server once.  Sandboxes of the template have the server running when create() returns.
//
//     npm run websocket:build
import { fileURLToPath } from 'node:url'
import { Template, defaultBuildLogger, waitForPort } from 'e2b'

const template = Template({ fileContextPath: fileURLToPath(new URL('.', import.meta.url)) })
  .fromNodeImage('24')
  .setWorkdir('/home/user')
  .runCmd('npm init -y')
  .npmInstall(['@anthropic-ai/claude-agent-sdk', 'ws'])
  .copy('./server', '/home/user/server')
  .setStartCmd('cd /home/user/server && node server.mjs', waitForPort(3000))

await Template.build(template, process.env.AGENT_TEMPLATE ?? 'agent-websocket', { cpuCount: 2, memoryMB: 2048, onBuildLogs: defaultBuildLogger() })
