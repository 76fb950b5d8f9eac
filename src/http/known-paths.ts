/** The paths of the routes, whatever the method. Fastify's router finds only routes that have the method. */
import { maxHeaderSize } from 'node:http';
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify';
import findMyWay from 'find-my-way';
import { HttpError } from './response/error-exit.js';

export interface KnownPath {
  /** The pattern. */
  readonly url: string;
  readonly methods: Set<string>;
}

export class KnownPaths {
  private readonly byPath = new Map<string, KnownPath>();
  /** All of its routes are of GET. */
  private readonly router = findMyWay({ maxParamLength: maxHeaderSize });

  /** A hook for the definition of routes. */
  add({ url, method }: Pick<RouteOptions, 'url' | 'method'>): void {
    // Of the pages behind these, most do not exist, for any method.
    if (url === '/' || url.endsWith('*')) return;
    const path = this.byPath.get(url) ?? { url, methods: new Set() };
    if (!this.byPath.has(url)) this.router.on('GET', url, () => {}, path);
    this.byPath.set(url, path);
    for (const name of [method].flat()) path.methods.add(name);
  }

  of({ url }: FastifyRequest): KnownPath | null {
    const path = this.router.find('GET', url)?.store as KnownPath | undefined;
    // The router accepts an empty name after a last slash, but no route has such a path.
    return path === undefined || url.split('?')[0]?.endsWith('/') ? null : path;
  }
}

/** The pattern of a request's path, never the path itself; undefined: there is no such path. */
export const patternOf = ({ context, routeOptions }: FastifyRequest): string | undefined =>
  context.path?.url ?? routeOptions.url;

/** Answers a method that the path does not have with 405 and `Allow`, before authentication and body. */
export function refuseOtherMethods(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { path } = request.context;
    if (path === null || path.methods.has(request.method)) done();
    else done(notAllowed(request, path));
  });
}

function notAllowed({ method }: FastifyRequest, { url, methods }: KnownPath): HttpError {
  const allow = [...methods].sort().join(', ');
  return new HttpError(
    'method_not_allowed',
    `${method} is not allowed here`,
    { allow },
    OTHER_WAYS[`${method} ${url}`],
  );
}

/** Paths that people try first. */
const OTHER_PATHS: readonly (readonly [RegExp, string])[] = [
  [/\/tables?(?:\/|$)/, 'Tables: GET /api/cdp/schema lists them, POST /api/cdp/schema/table creates one.'],
  [/\/(?:query|queries|execute|sql)(?:\/|$)/, 'SQL: POST /api/cdp/sql {"sql": "SELECT …"}'],
  [/\/(?:data|records?|rows?|insert|upsert|import|ingest)(?:\/|$)/, 'Records: POST /api/cdp/data/TABLE [{…}]'],
  [/\/(?:projects?|tokens?|servers?)(?:\/|$)/, 'The calls for operators begin with /api/cdp/admin/.'],
];

/** The error for a path of the API that does not exist names one that does. */
export const hintForUnknownPath = (path: string): string | undefined =>
  path.startsWith('/api')
    ? (OTHER_PATHS.find(([words]) => words.test(path))?.[1] ?? 'All calls: GET /openapi.json, or /docs in a browser.')
    : undefined;

/** Hints for requests that people try first. */
const OTHER_WAYS: Readonly<Record<string, string>> = {
  'GET /api/cdp/data/:table_name': 'To read rows: POST /api/cdp/sql {"sql": "SELECT * FROM …"}',
  'PUT /api/cdp/data/:table_name': 'To update rows by a key: POST with ?on_conflict=COLUMN',
  'PATCH /api/cdp/data/:table_name': 'To update rows by a key: POST with ?on_conflict=COLUMN',
};
