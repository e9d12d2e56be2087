// What programs find inside: variables, users, files, names, time, devices.
import assert from 'node:assert/strict'
import test from 'node:test'

import { envd } from '../lib/raw.mjs'
import { suite } from '../lib/suite.mjs'

const { server, withSandbox } = await suite()
const base = 'b4se0debian0trixie00'

/** Runs commands; output(text) is what one prints, and it has to succeed without a word on stderr. */
const inside = (sandbox) => async (command, options) => {
  const { stdout, stderr } = await sandbox.commands.run(command, options)
  assert.equal(stderr, '', command)
  return stdout
}
const variables = (text) => Object.fromEntries(text.trimEnd().split('\n').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]))

test('variables of every process: who it is, where, and in which sandbox', withSandbox(async (sandbox) => {
  const output = inside(sandbox)
  const bundle = '/etc/ssl/certs/ca-certificates.crt', added = '/etc/sandglass/ca.pem' // where the host has an authority of its own
  const trust = { SSL_CERT_FILE: bundle, CURL_CA_BUNDLE: bundle, REQUESTS_CA_BUNDLE: bundle, PIP_CERT: bundle, GIT_SSL_CAINFO: bundle, AWS_CA_BUNDLE: bundle, NODE_EXTRA_CA_CERTS: added, DENO_CERT: added }
  const own = { ...((await output(`ls ${added} 2>/dev/null || true`)) ? trust : {}), E2B_SANDBOX: 'true', E2B_SANDBOX_ID: sandbox.sandboxId, E2B_TEMPLATE_ID: base, ALL: 'every where' }
  for (const [user, home] of [['user', '/home/user'], ['root', '/root']]) {
    // the shell's own variables aside, nothing else: not the server's, and not those of whoever started that
    const { PATH, _, SHLVL, PWD, ...found } = variables(await output('env', { user }))
    assert.deepEqual(found, { ...own, HOME: home, USER: user, LOGNAME: user, SHELL: '/bin/bash', LANG: 'C.UTF-8' })
    assert.equal(PWD, home)
    assert.equal(PATH, `${home}/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`)
  }
  // before any shell had a say: what the first process of a command was given
  const { PATH, ...given } = variables((await output('tr "\\0" "\\n" </proc/$$/environ', { envs: { MINE: '1' } })))
  assert.deepEqual(given, { ...own, MINE: '1', HOME: '/home/user', USER: 'user', LOGNAME: 'user' })
  assert.ok(PATH.split(':').includes('/usr/bin'))
}, { envs: { ALL: 'every where' } }))

test('variables cannot be taken over: those of the sandbox win over create, those of a command are its own', withSandbox(async (sandbox) => {
  const output = inside(sandbox)
  assert.equal(await output('echo $E2B_SANDBOX $E2B_SANDBOX_ID'), `true ${sandbox.sandboxId}\n`)
  assert.equal(await output('echo $HOME $E2B_SANDBOX', { envs: { HOME: '/tmp', E2B_SANDBOX: 'mine' } }), '/tmp mine\n')
  assert.equal(await output('sudo sh -c "echo \\"<$FOO>\\""; sudo printenv FOO || echo none', { envs: {} }), '<>\nnone\n')
  await output('sudo true', { envs: { FOO: 'leaks?' } })
  assert.equal(await output('sudo printenv FOO || echo none', { envs: { FOO: 'leaks?' } }), 'none\n')
}, { envs: { E2B_SANDBOX: 'no', E2B_SANDBOX_ID: 'other' } }))

test('files that say where one is', withSandbox(async (sandbox) => {
  for (const [name, want] of [['', 'true'], ['_ID', sandbox.sandboxId]]) assert.equal(await sandbox.files.read(`/run/e2b/.E2B_SANDBOX${name}`), want)
  assert.equal(await sandbox.files.read('/run/e2b/.E2B_TEMPLATE_ID'), base)
  assert.equal(await inside(sandbox)('stat -c "%U %a" /run/e2b /run/e2b/.E2B_SANDBOX_ID'), 'root 755\nroot 644\n')
}))

test('users: one to work as, with a home, a shell, a group and all rights by sudo; root without a password', withSandbox(async (sandbox) => {
  const output = inside(sandbox)
  assert.equal(await output('getent passwd user root | cut -d: -f1,3,4,6,7'), 'user:1000:1000:/home/user:/bin/bash\nroot:0:0:/root:/bin/bash\n')
  assert.equal(await output('id -un; id -Gn; stat -c "%U %G %a" ~'), 'user\nuser\nuser user 755\n')
  assert.equal(await output('id -un; id -Gn', { user: 'root' }), 'root\nroot\n')
  assert.equal(await output('sudo -n id -un; sudo -n -u user id -un; sudo -n -i sh -c \'echo $HOME\''), 'root\nuser\n/root\n')
  assert.equal(await output('su -c "id -un" </dev/null'), 'root\n')
  assert.equal(await output('sudo useradd -m other && id -un other'), 'other\n')
  assert.equal(await output('id -un; echo ~', { user: 'other' }), 'other\n/home/other\n', 'a user made later can be named at once')
  assert.equal((await sandbox.files.write('mine', 'x', { user: 'other' })).path, '/home/other/mine')
}))

test('umask, working directory, and places that everybody may write to', withSandbox(async (sandbox) => {
  const output = inside(sandbox)
  assert.equal(await output('umask; touch new; mkdir newer; stat -c %a new newer; pwd'), '0022\n644\n755\n/home/user\n')
  assert.equal(await output('umask; pwd', { user: 'root' }), '0022\n/root\n')
  assert.equal(await output('stat -c %a /usr/local /usr/local/bin /code /tmp /var/tmp /dev/shm'), '777\n777\n777\n1777\n1777\n1777\n')
  assert.equal(await output('for d in /usr/local/bin /code /tmp /dev/shm; do touch $d/x; done; npm config get prefix 2>&1 | wc -l'), '1\n')
}))

test('a login shell: its prompt, SHELL, PATH, and the files of the user', withSandbox(async (sandbox) => {
  const output = inside(sandbox)
  assert.equal(await output('echo "$PS1|$SHELL|$0"; shopt -q login_shell && echo login'), '\\w \\$ |/bin/bash|/bin/bash\nlogin\n')
  await sandbox.files.write('.bashrc', 'export FROM_BASHRC=1\n')
  await sandbox.files.write('.profile', 'export FROM_PROFILE=2\n')
  assert.equal(await output('echo $FROM_BASHRC$FROM_PROFILE'), '12\n')
  assert.doesNotMatch(await output('echo $PATH', { envs: { PATH: '/strange' } }), /strange/, 'a login shell sets it anew')
  await sandbox.commands.run('sudo mkdir -p /strange && printf "#!/bin/sh\\necho found" | sudo tee /strange/tool >/dev/null && sudo chmod +x /strange/tool')
  assert.equal(await output('PATH=/strange:$PATH tool'), 'found\n')
}))

test('names: its own, localhost, and whom to ask for others', withSandbox(async (sandbox) => {
  const output = inside(sandbox)
  assert.equal(await output('hostname; uname -n; cat /proc/sys/kernel/hostname'), `${sandbox.sandboxId}\n`.repeat(3))
  assert.match(await output('cat /etc/hosts'), new RegExp(`^127\\.0\\.0\\.1\tlocalhost\n::1\tlocalhost .*\n127\\.0\\.1\\.1\t${sandbox.sandboxId}\n$`))
  assert.match(await output('getent ahostsv4 localhost | head -1; getent ahostsv4 "$(hostname)" | head -1'), /^127\.0\.0\.1 .*\n127\.0\.[01]\.[12] .*\n$/)
  assert.match(await output('cat /etc/resolv.conf'), /^nameserver \d+\.\d+\.\d+\.\d+$/m)
  assert.match(await output('grep ^hosts: /etc/nsswitch.conf'), /files.*dns/)
  assert.equal(await output('sudo true 2>&1'), '', 'sudo finds its host and does not complain')
  assert.equal(await output('python3 -c "import socket; print(socket.gethostbyname(socket.gethostname())[:6])"'), '127.0.\n')
}))

test('language and time: UTF-8, UTC, the clock of the machine', withSandbox(async (sandbox) => {
  const output = inside(sandbox)
  assert.equal(await output('locale charmap; python3 -c "import sys; print(sys.stdout.encoding, sys.getfilesystemencoding())"'), 'UTF-8\nutf-8 utf-8\n')
  assert.equal(await output('echo ä | wc -m; LANG=C locale charmap; locale charmap', { envs: { LANG: 'C.UTF-8' } }), '2\nANSI_X3.4-1968\nUTF-8\n')
  assert.equal(await output('date +%Z; node -p "new Date(0).getTimezoneOffset()"'), 'UTC\n0\n')
  const from = Math.floor(Date.now() / 1000)
  const inner = Number(await output('date +%s'))
  assert.ok(inner >= from && inner <= Math.ceil(Date.now() / 1000), `${inner}, from ${from}`)
  assert.equal(await output('TZ=Europe/Berlin date -d @0 +%H:%M'), '01:00\n')
}))

test('commands that clients and their users call', withSandbox(async (sandbox) => {
  const names = 'bash sh sudo su python3 python pip curl wget git node npm tput pgrep kill pkill ps realpath find grep sed awk tar gzip unzip jq rg ssh rsync lsof ip ping less nano file make gcc'
  assert.equal(await inside(sandbox)(`for c in ${names}; do command -v $c >/dev/null || echo $c; done`), '')
}))

test('devices, shared memory, terminals of programs, extended attributes, nothing of the machine', withSandbox(async (sandbox) => {
  const output = inside(sandbox)
  assert.equal(await output('head -c 3 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c; echo x >/dev/null; readlink /dev/stdin /dev/fd'), '3\n8\n/proc/self/fd/0\n/proc/self/fd\n')
  await assert.rejects(sandbox.commands.run('echo x >/dev/full'), { exitCode: 1 })
  assert.equal(await output('python3 -c "import multiprocessing as m; print(sum(m.Pool(2).map(abs, range(-9, 1))))"'), '45\n')
  assert.match(await output('python3 -c "import os, pty; print(os.ttyname(pty.openpty()[1]))"; script -qec "tty" /dev/null'), /^\/dev\/pts\/\d+\n\/dev\/pts\/\d+\r\n$/)
  assert.equal(await output('touch a && python3 -c "import os; os.setxattr(\'a\', \'user.x\', b\'1\'); print(os.getxattr(\'a\', \'user.x\'))"'), "b'1'\n")
  assert.ok(Number(await output('cat /proc/sys/fs/inotify/max_user_watches')) >= 65536)
  // no block devices, no memory, and since nothing can be mounted, no /dev/fuse
  assert.equal(await output('find /dev -type b; ls /dev/mem /dev/kmsg /dev/fuse 2>/dev/null | wc -l'), '0\n')
  assert.match(await output('ps -o comm= -p 1'), /envd/)
}))

test('the daemon tells programs inside the variables, and what the sandbox uses', withSandbox(async (sandbox) => {
  const ask = async (path) => JSON.parse(await inside(sandbox)(`curl -sf -H "X-Access-Token: ${sandbox.envdAccessToken ?? ''}" localhost:49983${path}`))
  assert.deepEqual(await ask('/envs'), { E2B_SANDBOX: 'true', E2B_SANDBOX_ID: sandbox.sandboxId, E2B_TEMPLATE_ID: base, MINE: 'yes' })
  // from outside, so that nothing but the daemon runs
  const idle = (await envd(server, { sandboxID: sandbox.sandboxId, envdAccessToken: sandbox.envdAccessToken ?? '' }, 'GET', '/metrics')).json
  assert.ok(idle.mem_used >= 0 && idle.mem_used < idle.mem_total && idle.mem_used_mib < idle.mem_total_mib, JSON.stringify(idle))
  let arrived
  const there = new Promise((done) => (arrived = done))
  const held = await sandbox.commands.run('python3 -c "x = bytearray(b\'1\') * (64 << 20); print(1, flush=True); input()"', { background: true, stdin: true, onStdout: arrived })
  await there
  const busy = await ask('/metrics')
  await held.kill()
  assert.ok(busy.mem_used - idle.mem_used >= 64 << 20 && busy.mem_used_mib === Math.floor(busy.mem_used / 2 ** 20), JSON.stringify(busy))
}, { envs: { MINE: 'yes' } }))

test('a terminal has the same surroundings', withSandbox(async (sandbox) => {
  let screen = ''
  const decoder = new TextDecoder()
  const pty = await sandbox.pty.create({ cols: 200, rows: 24, onData: (piece) => (screen += decoder.decode(piece, { stream: true })) })
  await sandbox.pty.sendInput(pty.pid, Buffer.from('echo "<$E2B_SANDBOX|$E2B_SANDBOX_ID|$HOME|$SHELL|$(umask)|$PWD>"; echo hello >$(tty); sudo -n id -un; exit\n'))
  await pty.wait()
  assert.ok(screen.includes(`<true|${sandbox.sandboxId}|/home/user|/bin/bash|0022|/home/user>\r\nhello\r\nroot\r\n`), screen)
}))
