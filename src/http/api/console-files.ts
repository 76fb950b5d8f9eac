/**
 * Serves the files of the web console that the build has written. They are read once, when someone first opens the
 * console, and served from memory by name, so that no path of a request ever reaches the file system.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';

/**
 * Replaces the general policy of responses (`response.ts`) for the files of the web console. No text can become code:
 * no policy for Trusted Types is allowed.
 */
const CONSOLE_HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
} as const;

/** The output of `npm run build`; the relative path is valid from src and from dist. */
const CONSOLE_FOLDER = fileURLToPath(new URL('../../../dist/console', import.meta.url));

/** Answers a GET at or below its prefix, which ends with a slash. */
type ConsolePage = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

interface ServedFile {
  readonly type: string;
  readonly cacheControl: string;
  /** By content coding; every file has `identity`. */
  readonly codings: Map<string, { readonly bytes: Buffer; readonly etag: string }>;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
};

/** Content codings in order of preference, with the suffixes of the files that the build has compressed. */
const CODINGS: Readonly<Record<string, string>> = { br: '.br', gzip: '.gz', identity: '' };

/** Files whose names contain a hash of their content. */
const HASHED = 'assets/';

export function consolePage(prefix: string, folder: string = CONSOLE_FOLDER): ConsolePage {
  let reading: Promise<ReadonlyMap<string, ServedFile>> | undefined;
  return async (request, reply) => {
    reading ??= readFiles(folder);
    const path = request.url.slice(prefix.length).split('?')[0] ?? '';
    const file = (await reading).get(path === '' ? 'index.html' : path);
    if (file === undefined) {
      reply.callNotFound();
      return reply;
    }
    const codings = [...file.codings.keys()];
    // Our own order decides: browsers list gzip first, and send no weights.
    const accepted = new Negotiator(request.raw).encodings(codings);
    const coding = codings.find((each) => accepted.includes(each)) ?? 'identity';
    const { bytes, etag } = file.codings.get(coding) ?? { bytes: Buffer.alloc(0), etag: '' };
    void reply
      .headers(CONSOLE_HEADERS)
      .headers({ 'cache-control': file.cacheControl, etag, vary: 'accept-encoding' })
      .type(file.type);
    if (coding !== 'identity') void reply.header('content-encoding', coding);
    return isKnown(request.headers, etag) ? reply.code(304).send() : reply.send(bytes);
  };
}

/** Files by their path below the folder, with slashes; none if there is no folder. */
async function readFiles(folder: string): Promise<ReadonlyMap<string, ServedFile>> {
  const paths = await readdir(folder, { recursive: true }).catch((): string[] => []);
  const files = new Map<string, ServedFile>();
  for (const path of paths) {
    const type = TYPES[extname(path)];
    if (type === undefined) continue;
    const name = path.split(sep).join('/');
    const cacheControl = name.startsWith(HASHED) ? 'public, max-age=31536000, immutable' : 'no-cache';
    const file: ServedFile = { type, cacheControl, codings: new Map() };
    for (const [coding, ending] of Object.entries(CODINGS)) {
      // Not every file is packed in every coding.
      const bytes = await readFile(join(folder, `${path}${ending}`)).catch(() => null);
      if (bytes !== null) file.codings.set(coding, { bytes, etag: etagOf(bytes) });
    }
    files.set(name, file);
  }
  return files;
}

/** From the content, not the date: all files of an npm package have the same date. */
const etagOf = (bytes: Buffer): string => `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;

/** RFC 9110 section 13.1.2. */
const isKnown = ({ 'if-none-match': cachedEtag }: IncomingHttpHeaders, etag: string): boolean =>
  cachedEtag !== undefined && cachedEtag.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
