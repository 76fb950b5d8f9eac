/** What a project may be called. */
import { EngineError } from '../../contract/errors.js';
import { PROJECT_NAME_PATTERN } from '../../contract/names.js';

const NAME = new RegExp(PROJECT_NAME_PATTERN);

/** False for what cannot be a project's name; Postgres could not even be asked for a name with U+0000. */
export const isProjectName = (name: string): boolean => NAME.test(name);

/** @throws EngineError invalid_name */
export function requireName(name: string): void {
  if (isProjectName(name)) return;
  throw new EngineError('invalid_name', `A project's name must match ${PROJECT_NAME_PATTERN}`);
}
