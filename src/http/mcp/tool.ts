/** The definition of a tool, and its call: scope, arguments, log and audit log. */
import type { FastifyError } from 'fastify';
import { type JsonNode, readDataBody } from '../../codec/index.js';
import type { AuditOperation } from '../../contract/audit.js';
import type { Scope } from '../../contract/names.js';
import type { Schema, Static } from '../../contract/schema.js';
import { thoroughValidator } from '../../contract/validator.js';
import type { Call } from '../api/route.js';
import { requireScope } from '../admission.js';
import { memberOf } from '../body.js';
import { textIn } from '../observability/audit-request.js';
import { shapeError } from '../response/shape-error.js';
import type { ToolResult } from './tool-results.js';

interface Definition<Input extends Schema> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly scope: Scope;
  /** Name in the audit log: that of the same operation of the API. */
  readonly audit: AuditOperation;
  /** Effects of a call, for clients that ask their user first (MCP, "Tools"). */
  readonly annotations: {
    readonly readOnlyHint: boolean;
    readonly destructiveHint?: boolean;
    readonly idempotentHint?: boolean;
  };
  readonly input: Input;
  readonly output: Schema;
  /**
   * @param exact returns an argument with every digit of its numbers
   * @throws EngineError
   */
  run(call: Call, given: Static<Input>, exact: Exact): Promise<ToolResult>;
}

/** Annotations of a dry run, which stores nothing but takes the locks of a write. */
export const DRY_RUN = { readOnlyHint: false, destructiveHint: false, idempotentHint: true } as const;

type Exact = (name: string) => JsonNode | undefined;

export interface Tool extends Omit<Definition<Schema>, 'run'> {
  /**
   * @param given unchecked arguments
   * @throws EngineError insufficient_scope; invalid_request naming every wrong argument; the tool's own errors
   */
  run(call: Call, given: Record<string, unknown>): Promise<ToolResult>;
}

export function tool<Input extends Schema>(definition: Definition<Input>): Tool {
  const errorsOf = thoroughValidator(definition.input);
  return {
    ...definition,
    run(call, given) {
      const { context } = call.request;
      if (context.route !== null) context.route = { ...context.route, audit: definition.audit };
      context.object = textIn(given, 'table');
      const text = textIn(given, 'sql');
      if (text !== null) context.sql = { text, readOnly: definition.audit === 'sql_read' };
      requireScope(call.caller, definition.scope);
      const validation = errorsOf(given);
      if (validation !== null) {
        throw shapeError({ validation, validationContext: 'arguments' } as unknown as FastifyError);
      }
      const exact: Exact = (name) =>
        memberOf(memberOf(memberOf(readDataBody(context.body), 'params'), 'arguments'), name);
      return definition.run(call, given as Static<Input>, exact);
    },
  };
}
