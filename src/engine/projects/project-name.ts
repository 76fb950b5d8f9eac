/** The rules for names of projects. */
import { EngineError } from '../../contract/errors.js';
import { PROJECT_NAME_IN_WORDS, PROJECT_NAME_PATTERN } from '../../contract/names.js';

const NAME = new RegExp(PROJECT_NAME_PATTERN);

/** Check this before a query: Postgres accepts no text with U+0000. */
export const isProjectName = (name: string): boolean => NAME.test(name);

/** @throws EngineError invalid_name */
export function requireName(name: string): void {
  if (isProjectName(name)) return;
  throw new EngineError('invalid_name', `A project's name must be ${PROJECT_NAME_IN_WORDS}`);
}
