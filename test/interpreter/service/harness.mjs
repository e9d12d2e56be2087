// Starts the real service with scripted kernels, in directories of its own, and speaks HTTP to it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

export const [program, fakeKernel] = process.argv.slice(2).map((name) => path.resolve(name));
export const DEADLINE_MS = 60_000;

/** Wait until `check` gives something true, which is returned. */
export async function until(what, check) {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export function isAlive(pid) {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

function parentOf(pid) {
  try {
    return Number(/\) . (\d+)/.exec(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'))[1]);
  } catch {
    return 0;
  }
}

/** Children of a process, zombies included. */
export function childrenOf(pid) {
  return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === pid).map(Number);
}

export const KERNELS = {
  python3: { language: 'python' },
  javascript: { language: 'javascript' },
  bash: { language: 'bash' },
  java: { language: 'java' },
  ir: { language: 'R' },
  strange: { language: 'strange' },
  prompt: { language: 'prompt', metadata: { idle_is_last: true } },
  bymessage: { language: 'python', interrupt_mode: 'message' },
  dying: { language: 'dying', env: { FAKE_START: 'die' } },
  hanging: { language: 'hanging', env: { FAKE_START: 'hang' } },
  mute: { language: 'mute', env: { FAKE_START: 'mute' } },
  missing: { language: 'missing', argv: ['/nonexistent/kernel', '{connection_file}'] },
};

const started = new Set();
process.on('exit', () => { // a case that failed must not leave a service behind
  for (const service of started)
    for (const pid of [service.guardian, ...childrenOf(service.guardian)]) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
});

/** A service on a port of its own.  `kernels`: names of KERNELS; `via`: a program that starts it, as its child. */
export class Service {
  static async start({ kernels = Object.keys(KERNELS), envd, args = [], env = {}, via = null } = {}) {
    const service = new Service();
    service.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'interpreter-test-'));
    service.home = path.join(service.dir, 'home');
    service.kernels = path.join(service.dir, 'kernels');
    service.identity = path.join(service.dir, 'identity');
    fs.mkdirSync(service.home);
    fs.mkdirSync(service.kernels);
    fs.writeFileSync(service.identity, 'sandbox-1');
    for (const name of kernels) service.addKernel(name, KERNELS[name]);
    service.process = spawn(via ?? program, [...(via ? [program] : []), '--listen', '127.0.0.1:0', '--kernel-path', service.kernels, '--home', service.home,
      '--identity', service.identity, '--start-timeout', '10', '--envd', envd ?? 'http://127.0.0.1:9', ...args],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH, FROM_SERVICE: 'inherited', ...env } });
    service.log = '';
    service.process.stderr.on('data', (bytes) => { service.log += bytes; });
    service.end = new Promise((resolve) => service.process.on('exit', (code, signal) => resolve({ code, signal })));
    service.port = await new Promise((resolve, reject) => {
      let text = '';
      service.process.stdout.on('data', (bytes) => {
        text += bytes;
        const found = /listening on port (\d+)\n/.exec(text);
        if (found) resolve(Number(found[1]));
      });
      service.process.on('exit', () => reject(new Error(`did not start: ${service.log}`)));
    });
    service.guardian = via ? childrenOf(service.process.pid)[0] : service.process.pid;
    started.add(service);
    for (const handle of [service.process, service.process.stdout, service.process.stderr]) handle.unref();
    await service.isHealthy();
    return service;
  }

  /** How its first process ended. */
  get ended() {
    this.process.ref();
    return this.end;
  }

  addKernel(name, spec) {
    fs.mkdirSync(path.join(this.kernels, name), { recursive: true });
    fs.writeFileSync(path.join(this.kernels, name, 'kernel.json'),
      typeof spec === 'string' ? spec : JSON.stringify({ argv: [fakeKernel, '{connection_file}'], display_name: name, ...spec }));
  }

  async isHealthy() {
    await until('the service answers', async () => {
      try {
        return (await this.request('GET', '/health')).status === 200;
      } catch {
        return false;
      }
    });
  }

  /** The process that serves; null: there is none at the moment. */
  get serving() {
    return childrenOf(this.guardian).find(isAlive) ?? null;
  }

  async stop() {
    if (isAlive(this.guardian)) process.kill(this.guardian, 'SIGTERM');
    if (this.guardian === this.process.pid) await this.ended;
    await until('the guardian ends', () => !isAlive(this.guardian));
    started.delete(this);
    fs.rmSync(this.dir, { recursive: true, force: true });
  }

  request(method, target, { body, headers = {}, signal } = {}) {
    return new Promise((resolve, reject) => {
      const text = body === undefined ? undefined : typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
      const rq = http.request({ host: '127.0.0.1', port: this.port, method, path: target, agent: false, signal,
        headers: { 'Content-Type': 'application/json', ...(text === undefined ? {} : { 'Content-Length': Buffer.byteLength(text) }), ...headers } },
      (answer) => {
        const pieces = [];
        answer.on('data', (bytes) => pieces.push(bytes));
        answer.on('end', () => {
          const bytes = Buffer.concat(pieces);
          resolve({ status: answer.statusCode, headers: answer.headers, text: bytes.toString('latin1') });
        });
        answer.on('error', reject);
      });
      rq.on('error', reject);
      rq.end(text);
    });
  }

  /** Run code to the end: the lines without keepalives; every rule for bytes is checked. */
  async execute(code, fields = {}, headers = {}) {
    const answer = await this.request('POST', '/execute', { body: { code, ...fields }, headers });
    if (answer.status !== 200) return answer;
    return { ...answer, lines: parseLines(answer.text) };
  }

  async outputOf(code, fields = {}) {
    const { lines } = await this.execute(code, fields);
    return lines.filter((line) => line.type === 'stdout').map((line) => line.text).join('');
  }

  /** Begin to run code.  Resolves when the head of the answer is there. */
  open(code, fields = {}) {
    return new Promise((resolve, reject) => {
      const text = JSON.stringify({ code, ...fields });
      const rq = http.request({ host: '127.0.0.1', port: this.port, method: 'POST', path: '/execute', agent: false,
        headers: { 'Content-Length': Buffer.byteLength(text) } }, (answer) => resolve(new Stream(rq, answer)));
      rq.on('error', reject);
      rq.end(text);
    });
  }

  async createContext(fields = {}) {
    const answer = await this.request('POST', '/contexts', { body: fields });
    assert.equal(answer.status, 200, answer.text);
    return JSON.parse(answer.text);
  }

  async contexts() {
    return JSON.parse((await this.request('GET', '/contexts')).text);
  }

  fdCount() {
    return fs.readdirSync(`/proc/${this.serving}/fd`).length;
  }

  kernelPids() {
    return childrenOf(this.serving);
  }

  residentBytes() {
    return Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${this.serving}/status`, 'utf8'))[1]) * 1024;
  }

  /** What must be as before after a case: fds, processes. */
  census() {
    return { fds: this.fdCount(), kernels: this.kernelPids().length };
  }

  async isAsBefore(census) {
    let now;
    try {
      await until('nothing is left', () => {
        now = this.census();
        return now.fds <= census.fds && now.kernels === census.kernels;
      });
    } catch {
      assert.deepEqual(now, census);
    }
  }
}

export function parseLines(text) {
  assert.match(text, /^[\x20-\x7e\n]*$/, 'only ASCII');
  assert.ok(text === '' || text.endsWith('\n'));
  assert.ok(!text.includes('\n\n') && !text.startsWith('\n'), 'no blank lines');
  const lines = text.split('\n').slice(0, -1).map((line) => JSON.parse(line));
  return lines.filter((line) => line.type !== 'keepalive');
}

/** An answer that is under way. */
export class Stream {
  constructor(rq, answer) {
    this.rq = rq;
    this.status = answer.statusCode;
    this.answer = answer;
    this.text = '';
    this.isOver = false;
    answer.on('data', (bytes) => { this.text += bytes.toString('latin1'); });
    answer.on('end', () => { this.isOver = true; });
    answer.on('error', () => { this.isOver = true; });
    rq.on('error', () => { this.isOver = true; });
  }

  has(type) {
    return until(`a line ${type}`, () => this.text.includes(`{"type":"${type}"`));
  }

  async lines() {
    await until('the end of the stream', () => this.isOver);
    return parseLines(this.text);
  }

  leave() {
    this.rq.destroy();
  }
}
