/** Statements of a dump that name roles, which have other names on the target: they are executed one by one. */
import { PostgresError, type Session, SQLSTATE } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import type { Entry } from './dump-entries.js';

interface DumpStatement {
  readonly text: string;
  /** Whether to leave the statement out if it names a role, or is about a policy, that does not exist on the target. */
  readonly isRight: boolean;
}

type Roles = Pick<Placement, 'writer' | 'reader'>;

/** The statements of an entry, for the roles of the target. */
export function statementsOf({ kind, name, text }: Entry, from: Roles, to: Roles): DumpStatement[] {
  // One grant may name a role that does not exist on the target; the others are executed without it.
  if (kind.endsWith('ACL')) {
    return renamed(text, from, to)
      .split(/(?<=;)\n/)
      .map((grant) => ({ text: grant, isRight: true }));
  }
  if (kind === 'POLICY') return [{ text: renamed(text, from, to), isRight: true }];
  // In other entries, a word such as `writer` is a name that the project chose.
  return [{ text, isRight: kind === 'COMMENT' && name.startsWith('POLICY ') }];
}

/** pg_dump writes the name of a role after one of these words, or after another role. */
const renamed = (text: string, from: Roles, to: Roles): string =>
  (['writer', 'reader'] as const).reduce(
    (result, role) =>
      result.replaceAll(new RegExp(`(?<=\\b(?:TO|FROM|ROLE|BY) (?:\\w+, )*)${from[role]}\\b`, 'g'), to[role]),
    text,
  );

/**
 * @param errorFor what to throw if a statement fails
 * @returns messages about what is left out because a role does not exist
 */
export async function executeEach(
  session: Session,
  statements: readonly DumpStatement[],
  errorFor: (error: unknown, statement: string) => unknown,
): Promise<string[]> {
  const leftOut: string[] = [];
  for (const { text, isRight } of statements) {
    try {
      await session.script(text);
    } catch (error) {
      const statement = text.replaceAll(/\s+/g, ' ');
      const lacksRole = error instanceof PostgresError && error.sqlstate === SQLSTATE.UNDEFINED_OBJECT;
      if (!isRight || !lacksRole) throw errorFor(error, statement);
      leftOut.push(`${error.message}: ${statement}`);
    }
  }
  return leftOut;
}
