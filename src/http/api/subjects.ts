/** People's rights: where people are, finding them, handing over what there is about them, and erasing it (docs/subjects.md). */
import { finished } from 'node:stream/promises';
import { counted } from '../../contract/message-text.js';
import { DOCUMENTED, Type } from '../../contract/schema.js';
import * as wire from '../../contract/wire/subjects.js';
import type { Project } from '../../db/project.js';
import { declareSubjects, proposeSubjects, readSubjects } from '../../engine/subjects/declaration.js';
import { askedSubject, exportSubject, findSubjects } from '../../engine/subjects/look-up.js';
import { auditOriginOf } from '../observability/audit-request.js';
import { asEngineError, errorBody } from '../response/error-exit.js';
import { readRightsOf } from '../response/redaction.js';
import { writeHead } from '../response/response.js';
import { drained } from '../response/sql-response.js';
import type { Call } from '../route.js';
import { projectOfOwner, schemaOptions } from './call-inputs.js';
import { type Operation, RECORD_ERRORS, succeeds } from './operation.js';

/** @throws EngineError insufficient_scope */
const ownProject = (call: Call): Project => projectOfOwner(call, ', which may not see everything about a person');

const DECLARATION: wire.Declaration = {
  person: {
    identifiers: { email: { normalization: 'caseless-1' }, customer_no: {} },
    tables: {
      customers: {
        columns: { email: 'email', no: 'customer_no' },
        erase: 'delete',
        one_row_per_subject: true,
      },
      events: { columns: { user_id: 'customer_no' }, erase: { set: { user_id: null } } },
    },
  },
};

const STATE: wire.SubjectsState = {
  problems: [],
  not_covered: [{ table: 'newsletter', columns: ['email'] }],
  missing_indexes: [],
};

const EXAMPLE: wire.SubjectBody = { person: { email: 'ada@example.com' } };

const DECLARE_SUBJECTS: Operation = {
  method: 'PUT',
  url: '/api/cdp/subjects',
  access: ['schema:write'],
  operationId: 'declareSubjects',
  summary: 'Declare which columns identify people, and what erasing them means',
  description: 'Replaces an earlier declaration.',
  tag: 'subjects',
  audit: { operation: 'declare_subjects', isChange: true },
  writesEntry: true,
  slot: 'typed',
  body: wire.DeclareSubjectsBody,
  example: { subjects: DECLARATION },
  success: succeeds(200, wire.SubjectsResponse, 'declared', {
    subjects: DECLARATION,
    declared_at: '2026-01-31T09:30:00.000Z',
    ...STATE,
  }),
  errors: ['table_not_found', 'column_not_found', 'permission_denied', 'request_in_flight', 'outcome_unknown'],
  async handle(call) {
    const { engine, request } = call;
    const { subjects } = request.body as wire.DeclareSubjectsBody;
    const project = ownProject(call);
    const state = await declareSubjects(engine, project, subjects, auditOriginOf(request), schemaOptions(call));
    const stored = await engine.control.subjects.declaration(project.id);
    const declared_at = stored?.declaredAt.toISOString() ?? null;
    return { body: { success: true, message: 'declared', subjects, declared_at, ...state } };
  },
};

const READ_SUBJECTS: Operation = {
  method: 'GET',
  url: '/api/cdp/subjects',
  access: ['schema:read'],
  operationId: 'readSubjects',
  summary: 'Show where people are declared to be, and what is not covered',
  tag: 'subjects',
  audit: { operation: 'read_subjects', isChange: false },
  slot: 'typed',
  success: succeeds(200, wire.SubjectsResponse, '1 table is not covered', {
    subjects: DECLARATION,
    declared_at: '2026-01-31T09:30:00.000Z',
    ...STATE,
  }),
  errors: [],
  async handle(call) {
    const state = await readSubjects(call.engine, ownProject(call), schemaOptions(call));
    const { length } = state.not_covered;
    const message = `${counted(length, 'table')} ${length === 1 ? 'is' : 'are'} not covered`;
    return { body: { success: true, message, ...state } };
  },
};

const PROPOSE_SUBJECTS: Operation = {
  method: 'GET',
  url: '/api/cdp/subjects/proposal',
  access: ['schema:read'],
  operationId: 'proposeSubjects',
  summary: 'Propose a declaration from foreign keys, unique columns and equal names',
  description: 'Stores nothing. Each table would be deleted from: choose what stays, and send it with PUT.',
  tag: 'subjects',
  audit: { operation: 'propose_subjects', isChange: false },
  slot: 'typed',
  success: succeeds(200, wire.ProposalResponse, '2 tables', { subjects: DECLARATION, not_covered: STATE.not_covered }),
  errors: [],
  async handle(call) {
    const proposal = await proposeSubjects(ownProject(call), schemaOptions(call));
    const tables = Object.keys(proposal.subjects?.person?.tables ?? {}).length;
    return { body: { success: true, message: counted(tables, 'table'), ...proposal } };
  },
};

const LOOK_UP_ERRORS = [
  'not_found',
  'table_not_found',
  'column_not_found',
  'invalid_value',
  'permission_denied',
  'sql_error',
] as const;

const optionsOf = ({ caller, signal }: Call) => ({ asWriter: caller.scopes.has('sql:write'), signal });

const FIND_SUBJECT: Operation = {
  method: 'POST',
  url: '/api/cdp/subjects/find',
  access: ['sql:read'],
  operationId: 'findSubject',
  summary: 'Find everything about a person',
  description:
    'Follows the declared links until nothing new is found. With `sql:write`, also counts what the quarantine and stored responses have.',
  tag: 'subjects',
  audit: { operation: 'find_subject', isChange: false },
  slot: 'sql',
  query: wire.FindQuery,
  body: wire.SubjectBody,
  example: EXAMPLE,
  success: succeeds(200, wire.FindResponse, '1 row in 1 table', {
    kind: 'person',
    identifiers: { email: ['ada@example.com'], customer_no: ['1001'] },
    joined: [],
    tables: [{ table: 'customers', row_count: 1, rows: [{ no: 1001, email: 'ada@example.com' }] }],
    places: [{ place: 'quarantine', count: 0 }],
  }),
  errors: LOOK_UP_ERRORS,
  async handle(call) {
    const { body, query } = call.request;
    const searches = (query as wire.FindQuery).search === 'value';
    const found = await findSubjects(call.engine, ownProject(call), askedSubject(body as wire.SubjectBody), {
      ...optionsOf(call),
      searches,
    });
    const { tables, ...others } = found;
    const full = tables.filter(({ row_count: count }) => count > 0);
    const rows = full.reduce((sum, { row_count: count }) => sum + count, 0);
    const message = `${counted(rows, 'row')} in ${counted(full.length, 'table')}`;
    // The rows are JSON already, with every digit.
    const shown = tables.map(
      (one) => `{"table":${JSON.stringify(one.table)},"row_count":${one.row_count},"rows":[${one.rows.join(',')}]}`,
    );
    const head = JSON.stringify({ success: true, message, ...others });
    return { body: `${head.slice(0, -1)},"tables":[${shown.join(',')}]}`, rows };
  },
};

const EXPORT_SUBJECT: Operation = {
  method: 'POST',
  url: '/api/cdp/subjects/export',
  access: ['sql:read'],
  operationId: 'exportSubject',
  summary: 'Hand over everything about a person',
  description:
    'NDJSON from one snapshot: `{"table":"customers","row":{…}}` for each row; the last line is `{"manifest":{…}}`. Without it, the export is not complete.',
  tag: 'subjects',
  audit: { operation: 'export_subject', isChange: false },
  slot: 'sql',
  body: wire.SubjectBody,
  example: EXAMPLE,
  success: {
    status: 200,
    response: wire.ExportLine,
    example: { table: 'customers', row: { no: 1001, email: 'ada@example.com' } },
  },
  errors: LOOK_UP_ERRORS,
  async handle(call) {
    const { request, reply, engine } = call;
    const { raw } = reply;
    const { context } = request;
    const write = async (text: string): Promise<void> => {
      if (!raw.headersSent) writeHead(request, reply, 200, { 'content-type': 'application/x-ndjson' });
      if (!raw.write(text) && !raw.destroyed) await drained(raw, context.stallMs);
    };
    try {
      const asked = askedSubject(request.body as wire.SubjectBody);
      const { rows, manifest } = await exportSubject(engine, ownProject(call), asked, optionsOf(call), write);
      context.rows = rows;
      await write(`${JSON.stringify({ manifest })}\n`);
      raw.end();
    } catch (thrown) {
      if (!raw.headersSent) throw thrown;
      const error = asEngineError(thrown);
      context.errorCode = error.code;
      const line = JSON.stringify({ error: errorBody(error, request.id, readRightsOf(context)) });
      raw.write(`${line}\n`, () => raw.destroy());
    }
    raw.setTimeout(context.stallMs);
    // The client left, or did not read: the connection is closed.
    await finished(raw).catch(() => {});
    return { body: null };
  },
};

const RESULT: wire.ErasureOutcome = {
  transaction: '1234',
  tables: [{ table: 'customers', deleted: 1, changed: 0 }],
  others: [],
  places: [{ place: 'quarantine', count: 0 }],
  rounds: 1,
  came_meanwhile: 0,
  looked_through: ['customers.email'],
  missing_indexes: [],
};

const ERASURE: wire.Erasure = {
  id: '01a1fd4a-ba32-426b-b7d9-cf4374f5ddde',
  kind: 'person',
  state: 'cleaning',
  deep: false,
  created_at: '2026-01-31T09:30:00.000Z',
  erased_at: '2026-01-31T09:30:00.100Z',
  ended_at: null,
  error: null,
  result: RESULT,
  upkeep: null,
  receipt: 'eyJhbGciOiJFZERTQSJ9…',
};

const addressOf = (id: string): string => `/api/cdp/subjects/erasures/${id}`;

const ERASE_SUBJECT: Operation = {
  method: 'POST',
  url: '/api/cdp/subjects/erase',
  access: ['subjects:erase'],
  operationId: 'eraseSubject',
  summary: 'Erase everything about a person',
  description:
    'In one transaction. A small erasure is answered with 200 and its receipt; a larger one, and one with `deep`, with 202 and the address where to follow it.',
  tag: 'subjects',
  audit: { operation: 'erase_subject', isChange: true },
  slot: 'typed',
  hasDryRun: true,
  query: wire.EraseQuery,
  body: wire.SubjectBody,
  example: EXAMPLE,
  success: succeeds(200, wire.EraseResponse, 'erased: 1 row', {
    erasure: ERASURE,
    nonce: 'k3o3BZbqNqS0VIZ4e9y1v2Jd7m6QqK0s8r1G5tWcXyA',
    address: addressOf(ERASURE.id),
  }),
  otherSuccess: {
    status: 202,
    response: wire.EraseResponse,
    example: {
      ...{ success: true, message: 'the erasure has begun', nonce: 'k3o3BZbqNqS0VIZ4e9y1v2Jd7m6QqK0s8r1G5tWcXyA' },
      ...{ erasure: { ...ERASURE, state: 'running', erased_at: null, result: null, receipt: null } },
      address: addressOf(ERASURE.id),
    },
  },
  errors: [
    ...LOOK_UP_ERRORS,
    'constraint_violation',
    'unique_violation',
    'row_too_large',
    'quota_exceeded',
    'citus_limit',
    ...RECORD_ERRORS,
  ],
  async handle(call) {
    const { engine, request, signal } = call;
    const project = ownProject(call);
    const asked = askedSubject(request.body as wire.SubjectBody);
    request.context.auditObject = asked.kind;
    if (project.dryRun !== null) {
      const result = await engine.erasures.rehearse(project, asked, signal);
      const message = `nothing was erased: it would be ${counted(rowsOf(result), 'row')}`;
      return { body: { success: true, message, result }, rows: 0 };
    }
    const deep = (request.query as wire.EraseQuery).deep === 'true';
    const { erasure, nonce, isErased } = await engine.erasures.erase(project, asked, {
      ...{ deep, signal },
      by: auditOriginOf(request),
    });
    const rows = erasure.result === null ? 0 : rowsOf(erasure.result);
    const message = isErased ? `erased: ${counted(rows, 'row')}` : 'the erasure has begun';
    const body: wire.EraseResponse = { success: true, message, erasure, nonce, address: addressOf(erasure.id) };
    return { status: isErased ? 200 : 202, body, rows };
  },
};

const rowsOf = ({ tables }: wire.ErasureOutcome): number =>
  tables.reduce((sum, { deleted, changed }) => sum + deleted + changed, 0);

const LIST_ERASURES: Operation = {
  method: 'GET',
  url: '/api/cdp/subjects/erasures',
  access: ['subjects:erase'],
  operationId: 'listErasures',
  summary: 'List the last 100 erasures, the newest first',
  tag: 'subjects',
  audit: { operation: 'list_erasures', isChange: false, isPolled: true },
  slot: null,
  success: succeeds(200, wire.ErasuresResponse, '1 erasure', { erasures: [ERASURE] }),
  errors: [],
  async handle(call) {
    const erasures = await call.engine.erasures.list(ownProject(call));
    return { body: { success: true, message: counted(erasures.length, 'erasure'), erasures } };
  },
};

const READ_ERASURE: Operation = {
  method: 'GET',
  url: '/api/cdp/subjects/erasures/:erasure_id',
  access: ['subjects:erase'],
  operationId: 'readErasure',
  summary: 'Follow an erasure',
  tag: 'subjects',
  audit: { operation: 'read_erasure', isChange: false, isPolled: true },
  slot: null,
  params: Type.Object({ erasure_id: Type.String({ [DOCUMENTED]: { format: 'uuid' } }) }),
  success: succeeds(200, wire.ErasureResponse, 'cleaning', { erasure: ERASURE }),
  errors: ['not_found'],
  async handle(call) {
    const { erasure_id: id } = call.request.params as { erasure_id: string };
    const erasure = await call.engine.erasures.get(ownProject(call), id);
    return { body: { success: true, message: erasure.state, erasure } };
  },
};

const READ_SUBJECT_KEYS: Operation = {
  method: 'GET',
  url: '/api/cdp/subjects/keys',
  access: 'any',
  operationId: 'readSubjectKeys',
  summary: 'The public keys of receipts, also earlier ones',
  tag: 'subjects',
  audit: { operation: 'read_subject_keys', isChange: false, isPolled: true },
  slot: null,
  success: succeeds(200, wire.SubjectKeysResponse, '1 key', {
    keys: [{ kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', kid: 'kPrK…' }],
  }),
  errors: [],
  async handle(call) {
    const keys = await call.engine.subjectKeys.publicKeys();
    return { body: { success: true, message: counted(keys.length, 'key'), keys } };
  },
};

export const SUBJECTS: readonly Operation[] = [
  DECLARE_SUBJECTS,
  READ_SUBJECTS,
  PROPOSE_SUBJECTS,
  FIND_SUBJECT,
  EXPORT_SUBJECT,
  ERASE_SUBJECT,
  LIST_ERASURES,
  READ_ERASURE,
  READ_SUBJECT_KEYS,
];
