/** Statements of a dump that name roles, which have other names on the target: they are executed one by one. */
import { PostgresError, type Session, SQLSTATE } from '../../pg/index.js';

export interface DumpStatement {
  readonly text: string;
  /** It grants or revokes, or is a policy. */
  readonly isRight: boolean;
}

/** pg_dump writes the name of a role after one of these words, or after another role. */
export const renamed = (text: string, roles: ReadonlyMap<string, string>): string =>
  [...roles].reduce(
    (result, [from, to]) =>
      from === to
        ? result
        : result.replaceAll(new RegExp(`(?<=\\b(?:TO|FROM|ROLE|BY) (?:\\w+, )*)${from}\\b`, 'g'), to),
    text,
  );

/** One grant may name a role that does not exist here; the others are executed without it. */
export const statementsOf = (kind: string, text: string): string[] =>
  kind.endsWith('ACL') ? text.split(/(?<=;)\n/) : [text];

/**
 * @param errorFor what to throw if a statement fails
 * @returns the rights that were given to roles which do not exist here, in words
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
