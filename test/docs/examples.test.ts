/** The commands in the docs do what the docs show, and everything that the docs refer to exists. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commandsFor } from '../../src/cli/main.js';
import { ENVIRONMENT } from '../../src/cli/remote/profiles.js';
import type { Setting } from '../../src/setting-kinds.js';
import { SETTINGS } from '../../src/settings.js';
import { startTestService, type TestService } from '../support/service.js';
import { anchors, blocks, code, internalLinks, markdownFiles, read, root } from './markdown.js';

interface Example {
  line: number;
  command: string;
  status: number;
  language: string;
  response: string;
}

/** A block of shell with a curl command; behind it the status, as `201`, and a block with the body. */
function examples(markdown: string): Example[] {
  const all = blocks(markdown);
  return all.flatMap(({ language, text, line }, i) => {
    if (language !== 'sh' || !text.includes('curl ')) return [];
    const response = all[i + 1];
    const status = /`(\d{3})`/.exec(response?.before ?? '')?.[1];
    if (response === undefined || status === undefined)
      throw new Error(`The command in line ${line} shows no response`);
    return { line, command: text, status: Number(status), language: response.language, response: response.text };
  });
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** What differs from run to run: ids, tokens, times, statistics. */
function comparable(key: string, value: unknown): unknown {
  if (['created_at', 'time', 'stored_at', 'since', 'oldest', 'newest'].includes(key)) return '<time>';
  if (key === 'transaction_id') return '<number>';
  if (key === 'name' && /^project-\d+$/.test(String(value))) return '<project>';
  if (key === 'duration_ms') return '<number>';
  if (key === 'id' && /^\d+-\d+$/.test(String(value))) return '<place>';
  if (['approximate_rows', 'projects', 'size_bytes'].includes(key) && typeof value === 'number') return '<number>';
  return typeof value === 'string' ? value.replace(UUID, '<id>').replace(/\bcdp_\w{49}\b/g, '<token>') : value;
}

describe('the commands in the docs', () => {
  let service: TestService;
  let admin: string;
  let curlHome: string;
  beforeAll(async () => {
    service = await startTestService();
    admin = (await service.engine.tokens.create(null)).token;
    curlHome = mkdtempSync(join(tmpdir(), 'cdp-docs-'));
    writeFileSync(join(curlHome, '.curlrc'), String.raw`write-out = "\n%{http_code}"`);
  });
  afterAll(async () => {
    rmSync(curlHome, { recursive: true, force: true });
    await service.close();
  });

  /** As a reader does: pasted into a shell. */
  async function paste(command: string, token: string): Promise<{ status: number; body: string }> {
    const env = { PATH: process.env.PATH, CURL_HOME: curlHome, URL: service.url, TOKEN: token, ADMIN: admin };
    const child = spawn('sh', ['-ec', command], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => void (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => void (errors += chunk.toString()));
    const exit = await new Promise((resolve, reject) => child.on('close', resolve).on('error', reject));
    if (exit !== 0) throw new Error(`${command}\nended with ${String(exit)}: ${errors}`);
    const end = output.lastIndexOf('\n');
    return { status: Number(output.slice(end + 1)), body: output.slice(0, end) };
  }

  describe.each(['README.md', 'docs/api.md', 'docs/sql.md', 'docs/mcp.md'])('%s', (file) => {
    let token: string;
    beforeAll(async () => {
      token = (await service.project()).token;
    });

    const all = examples(read(file));
    it('has examples', () => expect(all.length).toBeGreaterThan(2));
    it.each(all)('line $line answers $status as shown', async ({ command, status, language, response }) => {
      const { body, ...answered } = await paste(command, token);
      expect({ status: answered.status, body }).toMatchObject({ status });
      if (language === 'json') expect(JSON.parse(body, comparable)).toEqual(JSON.parse(response, comparable));
      else expect(comparable('', body)).toBe(comparable('', response));
    });
  });
});

describe.each(markdownFiles())('%s', (file) => {
  const markdown = read(file);

  it('links only to files and headings that exist', () => {
    const dead = internalLinks(markdown).filter((link) => {
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? file : join(dirname(file), path);
      if (!existsSync(join(root, target))) return true;
      return anchor !== undefined && !anchors(read(target)).includes(anchor);
    });
    expect(dead).toEqual([]);
  });

  it('names only tests that exist', () => {
    // Behind a path, names alone are of the same folder: `test/http/admin/quota`, `byte-room`.
    const named = [...markdown.matchAll(/`(test\/[\w./-]*)`((?:, `[\w-]+`)*)/g)].flatMap(([, path = '', more = '']) => [
      path,
      ...Array.from(more.matchAll(/[\w-]+/g), ([name]) => join(dirname(path), name)),
    ]);
    expect(named.filter((path) => !['', '.test.ts'].some((end) => existsSync(join(root, path + end))))).toEqual([]);
  });

  it('names only npm scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = code(markdown).flatMap((line) =>
      [...line.matchAll(/\bnpm (?:run ([\w:]+)|(start|test)\b)/g)].map(([, run, short]) => run ?? short ?? ''),
    );
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
  });

  it('names only commands and options of cdp that exist', () => {
    const lines = code(markdown).flatMap(
      (line) => /^\$? ?(?:npx cdp-data-engine|cdp) ([a-z].*)$/.exec(line)?.[1] ?? [],
    );
    expect(lines.filter((line) => !isCommand(line))).toEqual([]);
  });

  it('has no command that could run an unrelated package', () => {
    expect(code(markdown).filter((line) => /\bnpx cdp /.test(line))).toEqual([]);
  });

  it('names only environment variables that are settings', () => {
    // A secret may be in a file.
    const variables = Object.values<Setting<unknown>>(SETTINGS).flatMap(({ env, secret }) =>
      secret ? [env, `${env}_FILE`] : [env],
    );
    const known = new Set<string>([...variables, ...Object.values(ENVIRONMENT)]);
    const named = [...markdown.matchAll(/\bCDP_[A-Z_]+\b/g)].map(([name]) => name);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });
});

const commands: readonly Command[] = await commandsFor([]);

/** Whether the words name a command, or a group of commands or one of it, with arguments and options that it takes. */
function isCommand(line: string): boolean {
  const [first = '', second, third] = line.split(' ');
  const group = commands.find((command) => command.name() === first);
  const sub = group?.commands.find((one) => one.name() === second);
  const isWhole =
    sub === undefined &&
    (second === undefined || (group?.registeredArguments.length ?? 0) > 0 || group?.commands.length === 0);
  const command = isWhole ? group : sub;
  const options = [...line.matchAll(/--[a-z-]+/g)].map(([option]) => option);
  if (command === undefined) return false;
  const word = isWhole ? second : third;
  const takesWord = command.registeredArguments.length > 0 || command.commands.length > 0;
  if (!takesWord && /^\w/.test(word ?? '')) return false;
  return options.every((option) => command.options.some(({ long }) => long === option));
}
