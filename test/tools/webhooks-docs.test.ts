/** docs/webhooks.md: its commands print what it says, its endpoint takes deliveries, and its snippets tell genuine ones from others. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CdpClient } from '../../src/client/index.js';
import { blocks, read, root } from '../docs/markdown.js';
import { compile } from '../support/compile.js';
import { type Endpoint, type Received, startEndpoint } from '../support/endpoint.js';
import {
  endEverything,
  eventually,
  firstToken,
  freePort,
  newFolder,
  preparedDataDir,
  startServe,
} from '../support/program.js';

const all = blocks(read('docs/webhooks.md'));
const inLanguage = (language: string) => all.filter((block) => block.language === language).map(({ text }) => text);
const [turnOn = '', create = ''] = inLanguage('sh');
const [printed = ''] = inLanguage('text');
const [message = ''] = inLanguage('json');
const [program = ''] = inLanguage('js');
const [typescript = ''] = inLanguage('ts');
const [python = ''] = inLanguage('python');

let cdp: CdpClient;
let folder: string;
let env: Record<string, string>;
let endpoint: Endpoint;
let receiver: ChildProcess | undefined;
beforeAll(async () => {
  const dataDir = await preparedDataDir();
  const { url } = await startServe(['--data-dir', dataDir, '--webhook-networks', '127.0.0.0/8']);
  const token = await firstToken(dataDir);
  cdp = new CdpClient({ url, token });
  folder = await newFolder();
  const bin = join(folder, 'bin');
  await mkdir(bin);
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'dir');
  writeFileSync(join(bin, 'cdp'), `#!/bin/sh\nexec ${process.execPath} ${join(root, 'dist/cli/bin.js')} "$@"\n`, {
    mode: 0o755,
  });
  env = { PATH: `${bin}:/usr/bin:${process.env.PATH}`, HOME: bin };
  Object.assign(env, { URL: url, TOKEN: token, CDP_URL: url, CDP_TOKEN: token });
  endpoint = await startEndpoint();
  await cdp.query('CREATE TABLE customers (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), email text)');
  await cdp.query('CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid())');
  await run(turnOn);
});
afterAll(async () => {
  receiver?.kill('SIGKILL');
  await endpoint?.close();
  await endEverything();
});

async function run(text: string): Promise<string> {
  const { stdout } = await promisify(execFile)('sh', ['-euc', text], { cwd: folder, env });
  return stdout;
}

/** By the command of the page, for an endpoint of ours. */
async function createWebhook(url: string): Promise<{ id: string; secret: string }> {
  const created = await run(create.replace('https://example.com/changes', url));
  const form = /^Webhook (\S+) created\nsecret {2}(whsec_\S+)\n$/;
  expect(printed).toMatch(form);
  expect(created).toMatch(form);
  const [, id = '', secret = ''] = form.exec(created) ?? [];
  return { id, secret };
}

const insert = (email: string) => cdp.query('INSERT INTO customers (email) VALUES ($1)', [email]);

it('calls the endpoint of the page, which drops repeats and what is not genuine', async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const { id, secret } = await createWebhook(url);
  writeFileSync(join(folder, 'endpoint.mjs'), program.replace('8000', String(port)));
  receiver = spawn(process.execPath, ['endpoint.mjs'], { cwd: folder, env: { ...env, SECRET: secret } });
  let output = '';
  receiver.stdout?.on('data', (chunk: Buffer) => void (output += chunk.toString()));
  const answers = async () => (await fetch(url, { method: 'POST', body: '{}' }).catch(() => undefined))?.status === 401;
  await eventually('the endpoint refuses what is not signed', answers);
  expect(await run(`cdp webhook test ${id}`)).toContain('204');
  const arrives = async (email: string) => {
    await insert(email);
    await eventually(`${email} arrives`, () => Promise.resolve(output.includes(email)));
  };
  const { cursor } = await cdp.changesPage();
  await arrives('ada@example.com');
  await run(`cdp webhook replay ${id} --from ${cursor}`);
  await eventually('it is sent again', async () => {
    const sent = (await cdp.webhooks.deliveries(id)).filter(({ changes }) => changes === 1);
    return sent.length === 2 && sent.every(({ status }) => status === 204);
  });
  await arrives('bob@example.com');
  expect(output).toBe('insert customers ada@example.com\ninsert customers bob@example.com\n');
});

/** The structure without the values. */
const shape = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shape);
  if (typeof value !== 'object' || value === null) return typeof value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shape(member)]));
};

it(
  'sends what the page shows, genuine by both snippets, also while a secret is rotated',
  { timeout: 60_000 },
  async () => {
    writeFileSync(join(folder, 'genuine.ts'), typescript);
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
    expect(compile([join(folder, 'genuine.ts')])).toEqual([]);
    const { isGenuine } = (await import(pathToFileURL(join(folder, 'genuine.js')).href)) as {
      isGenuine: (secret: string, headers: Record<string, string>, body: Buffer) => boolean;
    };
    const script = `${python}
import json, sys
secret, headers, body = json.load(sys.stdin)
print(is_genuine(secret, headers, body.encode()))`;
    const inPython = async (...given: [string, Record<string, string>, string]): Promise<boolean> => {
      const child = promisify(execFile)('python3', ['-c', script], { env });
      child.child.stdin?.end(JSON.stringify(given));
      return (await child).stdout === 'True\n';
    };
    const expectGenuine = async (secret: string, { headers, text }: Received, is: boolean) => {
      const found = [isGenuine(secret, headers, Buffer.from(text)), await inPython(secret, headers, text)];
      expect(found).toEqual([is, is]);
    };
    const next = async (email: string): Promise<Received> => {
      await insert(email);
      const find = () => endpoint.received.find(({ text }) => text.includes(email));
      await eventually(`${email} arrives`, () => Promise.resolve(find() !== undefined));
      return find() as Received;
    };

    const { id, secret } = await createWebhook(endpoint.url);
    const delivery = await next('grace@example.com');
    expect(shape(delivery.body)).toEqual(shape(JSON.parse(message)));
    await expectGenuine(secret, delivery, true);
    await expectGenuine(secret, { ...delivery, text: `${delivery.text} ` }, false);
    const { headers } = delivery;
    await expectGenuine(secret, { ...delivery, headers: { ...headers, 'webhook-id': 'another' } }, false);
    const late = String(Number(headers['webhook-timestamp']) - 600);
    await expectGenuine(secret, { ...delivery, headers: { ...headers, 'webhook-timestamp': late } }, false);

    const [, newer = ''] = /(whsec_\S+)/.exec(await run(`cdp webhook rotate ${id}`)) ?? [];
    expect(newer).not.toBe(secret);
    const after = await next('joan@example.com');
    for (const one of [secret, newer]) await expectGenuine(one, after, true);
  },
);
