/** What a project declares of its people: storing it, and comparing it with the tables. */
import type { AuditOrigin } from '../../contract/audit.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import type { Declaration, NotCovered, SubjectKind, SubjectsState } from '../../contract/wire/subjects.js';
import type { Project } from '../../db/project.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { Audit } from '../audit/audit.js';
import { type SchemaOptions, schemaRead } from '../schema/schema-change.js';
import { missingIndexes, notCovered, propose } from './coverage.js';
import {
  type Home,
  type Problem,
  readSubjectCatalog,
  resolveKind,
  type Runner,
  type Subjects,
} from './subject-tables.js';

interface DeclarationServices {
  readonly control: ControlDatabase;
  readonly audit: Audit;
}

export const homeOf = ({ row: { placement } }: Pick<Project, 'row'>): Home => placement;

/**
 * Declares where people are, in the place of an earlier declaration.
 * @throws EngineError naming every wrong place: invalid_request, table_not_found, column_not_found, permission_denied; request_in_flight,
 * outcome_unknown
 */
export async function declareSubjects(
  { control, audit }: DeclarationServices,
  project: Project,
  declaration: Declaration,
  by: AuditOrigin,
  options: SchemaOptions,
): Promise<SubjectsState> {
  const catalog = await schemaRead(project, options, (db) => readSubjectCatalog(db, homeOf(project)));
  const resolved = Object.entries(declaration).map(([kind, one]) => resolveKind(kind, one, catalog));
  const errors = new ErrorCollector();
  for (const { problems } of resolved) {
    for (const { problem, column, error } of problems)
      errors.add(error, () => ({ message: problem, ...(column === undefined ? {} : { column }) }));
  }
  errors.throwIfAny();
  const entry = audit.entryOfChange(by, { operation: 'declare_subjects' });
  if (!(await control.subjects.declare(project.id, declaration, entry)))
    throw new EngineError('request_in_flight', 'The project is being created, restored or deleted');
  return {
    problems: [],
    not_covered: notCovered(catalog, declaration),
    missing_indexes: resolved.flatMap(({ subjects }) => missingIndexes(subjects)),
  };
}

interface StoredDeclaration extends SubjectsState {
  /** null: nothing is declared, and all tables are not covered. */
  readonly subjects: Declaration | null;
  readonly declared_at: string | null;
}

export async function readSubjects(
  { control }: Pick<DeclarationServices, 'control'>,
  project: Project,
  options: SchemaOptions,
): Promise<StoredDeclaration> {
  const stored = await control.subjects.declaration(project.id);
  const declaration = stored?.declaration ?? {};
  const catalog = await schemaRead(project, options, (db) => readSubjectCatalog(db, homeOf(project)));
  const resolved = Object.entries(declaration).map(([kind, one]) => resolveKind(kind, one, catalog));
  return {
    subjects: stored?.declaration ?? null,
    declared_at: stored?.declaredAt.toISOString() ?? null,
    problems: resolved.flatMap(({ problems }) => problems.map(({ error: _, ...problem }) => problem)),
    not_covered: notCovered(catalog, declaration),
    missing_indexes: resolved.flatMap(({ subjects }) => missingIndexes(subjects)),
  };
}

export async function proposeSubjects(
  project: Project,
  options: SchemaOptions,
): Promise<{ subjects: Declaration | null; not_covered: NotCovered[] }> {
  const catalog = await schemaRead(project, options, (db) => readSubjectCatalog(db, homeOf(project)));
  const subjects = propose(catalog);
  return { subjects, not_covered: notCovered(catalog, subjects ?? {}) };
}

/** @throws EngineError not_found */
export async function declaredKind(
  { control }: Pick<DeclarationServices, 'control'>,
  projectId: string,
  kind: string,
): Promise<{ declared: SubjectKind; declaration: Declaration }> {
  const stored = await control.subjects.declaration(projectId);
  const declared = stored && Object.hasOwn(stored.declaration, kind) ? stored.declaration[kind] : undefined;
  if (stored === null || declared === undefined) {
    const kinds = Object.keys(stored?.declaration ?? {});
    throw new EngineError('not_found', `The project has not declared where a ${quoted(kind)} is`, {
      hint:
        kinds.length > 0
          ? `It has declared ${kinds.join(', ')}.`
          : 'PUT /api/cdp/subjects declares it; GET /api/cdp/subjects/proposal proposes a declaration.',
    });
  }
  return { declared, declaration: stored.declaration };
}

export interface Resolved {
  readonly subjects: Subjects;
  readonly notCovered: NotCovered[];
}

/**
 * The declared kind as the tables are now.
 * @param reads whether it is only read: then the writer's privileges do not matter
 * @throws EngineError naming every place that no longer fits: table_not_found, column_not_found, invalid_request
 */
export async function resolveNow(
  db: Runner,
  home: Home,
  kind: string,
  { declared, declaration }: { readonly declared: SubjectKind; readonly declaration: Declaration },
  reads: boolean,
): Promise<Resolved> {
  const catalog = await readSubjectCatalog(db, home);
  const { subjects, problems } = resolveKind(kind, declared, catalog);
  const counted = problems.filter(({ error }: Problem) => !reads || error !== 'permission_denied');
  const errors = new ErrorCollector();
  for (const { problem, column, error } of counted)
    errors.add(error, () => ({ message: problem, ...(column === undefined ? {} : { column }) }));
  const wrong = errors.toError({ hint: 'The declaration no longer fits: PUT /api/cdp/subjects with a new one.' });
  if (wrong !== undefined) throw wrong;
  return { subjects, notCovered: notCovered(catalog, declaration) };
}
