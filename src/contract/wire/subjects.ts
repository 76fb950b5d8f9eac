/** People in the tables of a project on the wire: the declaration, and what is found, handed over and erased (docs/subjects.md). */
import { STRICT, type Static, Type } from '../schema.js';
import { ERASURE_STATES, NORMALIZATIONS, SUBJECT_NAME_PATTERN, SUBJECT_TABLE_PATTERN } from '../subjects.js';
import { success } from './fields.js';

const names = { propertyNames: { pattern: SUBJECT_NAME_PATTERN } };

/** How a value for each row begins. */
const Random = Type.Object({ random: Type.String({ maxLength: 100 }) }, STRICT);

const SetTo = Type.Union([Type.Null(), Type.String({ maxLength: 1_000 }), Type.Number(), Type.Boolean(), Random], {
  description: 'null, a value, or `{"random": "erased-"}`: this text and a UUID, another one for each row.',
});

const Erase = Type.Union([
  Type.Literal('delete'),
  Type.Object({ set: Type.Record(SetTo, { minProperties: 1, maxProperties: 500 }) }, STRICT),
]);

const Identifier = Type.Object(
  {
    normalization: Type.Optional(
      Type.Enum(NORMALIZATIONS, {
        description: '`exact-1` (the default), or `caseless-1`: ASCII lower case, trimmed, Unicode NFC.',
      }),
    ),
  },
  STRICT,
);

const DeclaredTable = Type.Object(
  {
    columns: Type.Record(Type.String({ pattern: SUBJECT_NAME_PATTERN }), {
      minProperties: 1,
      maxProperties: 50,
      description: 'Which identifier each of these columns holds.',
      examples: [{ email: 'email', no: 'customer_no' }],
    }),
    erase: Erase,
    one_row_per_subject: Type.Optional(
      Type.Boolean({
        description: 'Each row is another subject: two found by one identifier are two known people.',
      }),
    ),
  },
  STRICT,
);

const Kind = Type.Object(
  {
    identifiers: Type.Record(Identifier, { ...names, minProperties: 1, maxProperties: 50 }),
    tables: Type.Record(DeclaredTable, {
      propertyNames: { pattern: SUBJECT_TABLE_PATTERN },
      minProperties: 1,
      maxProperties: 500,
    }),
    materialized_views: Type.Optional(
      Type.Array(Type.String({ pattern: SUBJECT_TABLE_PATTERN }), {
        maxItems: 100,
        description: 'Refreshed after an erasure.',
      }),
    ),
  },
  STRICT,
);
export type SubjectKind = Static<typeof Kind>;
export type DeclaredTable = Static<typeof DeclaredTable>;

export const Declaration = Type.Record(Kind, {
  ...names,
  minProperties: 1,
  maxProperties: 10,
  description: 'By kind of subject, such as `person`.',
});
export type Declaration = Static<typeof Declaration>;

export const DeclareSubjectsBody = Type.Object({ subjects: Declaration }, STRICT);
export type DeclareSubjectsBody = Static<typeof DeclareSubjectsBody>;

const NotCovered = Type.Object({
  table: Type.String(),
  columns: Type.Array(Type.String(), {
    description: 'Columns whose names look like those of identifiers; maybe none.',
  }),
});
export type NotCovered = Static<typeof NotCovered>;

const Problem = Type.Object({ table: Type.String(), column: Type.Optional(Type.String()), problem: Type.String() });
export type SubjectProblem = Static<typeof Problem>;

const MissingIndex = Type.Object({
  table: Type.String(),
  column: Type.String(),
  sql: Type.String({ description: 'The statement that would make it.' }),
});
export type MissingIndex = Static<typeof MissingIndex>;

const state = {
  problems: Type.Array(Problem, { description: 'Where the declaration no longer fits the tables.' }),
  not_covered: Type.Array(NotCovered, { description: 'Tables, and columns of declared tables, that no kind covers.' }),
  missing_indexes: Type.Array(MissingIndex, { description: 'Without them, whole tables are read.' }),
};
export interface SubjectsState {
  readonly problems: SubjectProblem[];
  readonly not_covered: NotCovered[];
  readonly missing_indexes: MissingIndex[];
}

export const SubjectsResponse = Type.Object({
  ...success,
  /** null: nothing is declared. */
  subjects: Type.Nullable(Declaration),
  declared_at: Type.Nullable(Type.String({ format: 'date-time' })),
  ...state,
});
export type SubjectsResponse = Static<typeof SubjectsResponse>;

export const ProposalResponse = Type.Object({
  ...success,
  /** null: no table looks as if it held people. */
  subjects: Type.Nullable(Declaration),
  not_covered: state.not_covered,
});
export type ProposalResponse = Static<typeof ProposalResponse>;

const IdentifierText = Type.Union([Type.String({ minLength: 1, maxLength: 1_000 }), Type.Integer()]);
const Values = Type.Union([IdentifierText, Type.Array(IdentifierText, { minItems: 1, maxItems: 10_000 })]);

const subject = Type.Record(Values, { ...names, minProperties: 1, maxProperties: 50 });

/** The kind is a name of the caller's, next to fields of this API: a kind may not have the name of one of these. */
export const SUBJECT_FIELDS = ['max_rows', 'joined'] as const;

const which = {
  description:
    'The kind with its identifiers, and how far to go. A list of values means that many subjects, which are taken together.',
  properties: {
    max_rows: Type.Integer({
      minimum: 1,
      maximum: 10_000_000,
      description: 'How many rows of a table may match (default 10,000).',
    }),
    joined: Type.Literal(true, { description: 'Go on if the identifiers lead to more subjects than were named.' }),
  },
  minProperties: 1,
  maxProperties: 3,
  examples: [{ person: { email: 'ada@example.com' } }],
};
export const SubjectBody = Type.Record(subject, which);
/** One of its keys is the kind. */
export interface SubjectBody {
  readonly max_rows?: number;
  readonly joined?: true;
  readonly [kind: string]:
    Readonly<Record<string, string | number | readonly (string | number)[]>> | number | true | undefined;
}

export const FindQuery = Type.Object({
  search: Type.Optional(
    Type.Literal('value', {
      description: 'Also look through every text and JSONB column of the project for the values. Slow.',
    }),
  ),
});
export type FindQuery = Static<typeof FindQuery>;

export const EraseQuery = Type.Object({
  deep: Type.Optional(
    Type.Literal('true', { description: 'Also rewrite the tables and statistics, so that no bytes remain.' }),
  ),
});
export type EraseQuery = Static<typeof EraseQuery> & { readonly dry_run?: 'true' };

const FoundIdentifiers = Type.Record(Type.Array(Type.String()), {
  description: 'All values that were found by following links, normalised; at most 1,000 each.',
});

const Joined = Type.Array(Type.Object({ table: Type.String(), subjects: Type.Integer() }), {
  description: 'Tables with one row per subject in which more rows were found than subjects were named.',
});
export type Joined = Static<typeof Joined>;

export const FindResponse = Type.Object({
  ...success,
  kind: Type.String(),
  identifiers: FoundIdentifiers,
  joined: Joined,
  tables: Type.Array(
    Type.Object({
      table: Type.String(),
      row_count: Type.Integer(),
      rows: Type.Array(Type.Object({}, { additionalProperties: true }), {
        description: 'At most 100, and 1 MiB of each table; an export has all.',
      }),
    }),
  ),
  places: Type.Array(Type.Object({ place: Type.String(), count: Type.Integer() })),
  searched: Type.Optional(
    Type.Object({
      found: Type.Array(Type.Object({ table: Type.String(), column: Type.String(), rows: Type.Integer() })),
      not_searched: Type.Array(Type.String(), { description: 'Tables for which the time did not suffice.' }),
    }),
  ),
});
export type FindResponse = Static<typeof FindResponse>;

/** A line of NDJSON; the last one has `manifest` instead. */
export const ExportLine = Type.Object({ table: Type.String(), row: Type.Object({}, { additionalProperties: true }) });

const ErasedTable = Type.Object({
  table: Type.String(),
  deleted: Type.Integer(),
  changed: Type.Integer({ description: 'Rows that stay, with other values.' }),
});
const OtherTable = Type.Object({
  table: Type.String(),
  inserted: Type.Integer(),
  updated: Type.Integer(),
  deleted: Type.Integer(),
});

export const ErasureOutcome = Type.Object({
  transaction: Type.Nullable(Type.String({ description: "Postgres's number of the transaction; null: a dry run." })),
  tables: Type.Array(ErasedTable),
  others: Type.Array(OtherTable, {
    description: 'What foreign keys (CASCADE) and triggers changed besides, also in tables that are not declared.',
  }),
  places: Type.Array(Type.Object({ place: Type.String(), count: Type.Integer() })),
  rounds: Type.Integer({ description: 'How often it was erased until a second look found nothing.' }),
  came_meanwhile: Type.Integer({
    description: 'Rows that others committed while it ran. They are of the state after it, and stay.',
  }),
  looked_through: Type.Array(Type.String(), { description: 'Columns of the second look before the commit.' }),
  missing_indexes: Type.Array(MissingIndex),
});
export type ErasureOutcome = Static<typeof ErasureOutcome>;

export interface StillHeld {
  readonly what: string;
  /** When it is gone at the latest; null: not known to the service. */
  readonly until: string | null;
}

const Upkeep = Type.Object({
  steps: Type.Array(Type.Object({ step: Type.String(), ms: Type.Number(), problem: Type.Nullable(Type.String()) })),
  second_look: Type.Nullable(
    Type.Integer({ description: 'Rows found afterwards: they came after the erasure. null: it could not look.' }),
  ),
});
export type Upkeep = Static<typeof Upkeep>;

export const Erasure = Type.Object({
  id: Type.String(),
  kind: Type.String(),
  state: Type.Enum(ERASURE_STATES),
  deep: Type.Boolean(),
  created_at: Type.String({ format: 'date-time' }),
  erased_at: Type.Nullable(Type.String({ format: 'date-time' })),
  ended_at: Type.Nullable(Type.String({ format: 'date-time' })),
  error: Type.Nullable(Type.String()),
  result: Type.Nullable(ErasureOutcome),
  upkeep: Type.Nullable(Upkeep),
  receipt: Type.Nullable(Type.String({ description: 'A JWS in compact form, once it is erased.' })),
});
export type Erasure = Static<typeof Erasure>;

export const ErasureResponse = Type.Object({ ...success, erasure: Erasure });
export type ErasureResponse = Static<typeof ErasureResponse>;

export const ErasuresResponse = Type.Object({ ...success, erasures: Type.Array(Erasure) });
export type ErasuresResponse = Static<typeof ErasuresResponse>;

export const EraseResponse = Type.Object({
  ...success,
  erasure: Type.Optional(Erasure),
  nonce: Type.Optional(
    Type.String({ description: 'Links the receipt to the identifiers. It is given only here, and stored nowhere.' }),
  ),
  address: Type.Optional(Type.String({ description: 'Where to follow the erasure.' })),
  /** Of a dry run. */
  result: Type.Optional(ErasureOutcome),
});
export type EraseResponse = Static<typeof EraseResponse>;

export const SubjectKeysResponse = Type.Object({
  ...success,
  keys: Type.Array(Type.Object({}, { additionalProperties: true }), { description: 'A JWK Set (RFC 7517).' }),
});

/** The payload of a receipt. */
export interface ReceiptPayload {
  readonly version: 1;
  /** The installation. */
  readonly issuer: string;
  readonly project: string;
  readonly erasure: string;
  readonly kind: string;
  readonly erased_at: string;
  readonly issued_at: string;
  /** HMAC-SHA-256 of each identifier under the nonce, base64url. */
  readonly commitments: readonly { identifier: string; normalization: string; hmac: string }[];
  readonly result: ErasureOutcome;
  readonly not_covered: readonly NotCovered[];
  readonly still_held: readonly StillHeld[];
}
