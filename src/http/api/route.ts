/** What a row of the route tables says. The tables are the API: validation, OpenAPI and dispatch read them. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuditOperation } from '../../contract/audit.js';
import type { ErrorCode } from '../../contract/errors.js';
import { type Schema, Type } from '../../contract/schema.js';
import type { WorkKind } from '../../engine/admission/admission.js';
import type { Departure } from '../../engine/admission/departure.js';
import type { Engine } from '../../engine/engine.js';
import type { Project } from '../../engine/project.js';
import { checkTableInPath } from '../../engine/schema/tables.js';
import type { Caller } from '../../engine/access/tokens.js';
import type { Access } from '../gate/authenticate.js';
import type { Pieces } from '../answer/pieces.js';

/** What every handler gets. */
export interface Context {
  readonly engine: Engine;
  readonly settings: RouteSettings;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Of the client: `aborted` when it has left. */
  readonly signal: Departure;
}

export interface RouteSettings {
  schemaHoldMs: number;
  streamStallMs: number;
}

/** A success; its status is the route's. */
export interface Answer {
  /** An object, JSON in bytes (as a whole or in pieces), or null where the handler has answered by itself. */
  body: object | Buffer | Pieces | null;
  headers?: Record<string, string>;
}

/** What stands behind a method and a path: all that differs from one to the next, wherever it is read. */
export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: 'schema' | 'data' | 'sql' | 'token' | 'admin';
  /** Its word in the audit log; free SQL as the reader is `sql_read` there. */
  readonly audit: AuditOperation;
  /** Its success writes its entry together with the change (`withEntry` in postgres/audit-log.ts). */
  readonly writesEntry?: true;
  /** What it does in the project's database; null: nothing. */
  readonly work: WorkKind | null;
  /** What it has Postgres do, where that is one command: its span is named by it. */
  readonly command?: string;
  readonly params?: Schema;
  readonly query?: Schema;
  /** Headers of its own; the schema is for the document alone. */
  readonly headers?: Schema;
  readonly body?: Schema;
  /** The engine reads the body's bytes itself; the schema is for the document alone. */
  readonly rawBody?: true;
  /** A field of the body that is data, in which keys may repeat. */
  readonly dataField?: string;
  readonly success: {
    readonly status: number;
    readonly answer: Schema;
    readonly example: unknown;
    /** By media type, for callers who ask for one of these with `Accept`. */
    readonly alsoAs?: Readonly<Record<string, Schema>>;
  };
  readonly example?: unknown;
  /** Codes beyond those that every route can answer with. */
  readonly errors: readonly ErrorCode[];
  handle(context: Context): Promise<Answer>;
}

export interface Route extends Operation {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly access: Access;
}

/** The project of the caller; its route asks for a scope, which no admin token has. */
export function project({ request }: Context): Project {
  const { project: found } = request.exchange;
  if (found === null) throw new Error('The route needs a project and its access is admin');
  return found;
}

export const TableInPath = Type.Object({ table_name: Type.String() });
export const ColumnInPath = Type.Object({ table_name: Type.String(), column_name: Type.String() });

/** @throws EngineError table_not_found where no table can have the name */
export function tableInPath({ request }: Context): string {
  const { table_name: name } = request.params as { table_name: string };
  checkTableInPath(name);
  return name;
}

export const columnInPath = ({ request }: Context): string => (request.params as { column_name: string }).column_name;
