/** The rules for names of projects. */
import { EngineError } from '../../contract/errors.js';
import { isProjectName, PROJECT_NAME_IN_WORDS } from '../../contract/names.js';

/** @throws EngineError invalid_name */
export function requireName(name: string): void {
  if (isProjectName(name)) return;
  throw new EngineError('invalid_name', `A project's name must be ${PROJECT_NAME_IN_WORDS}`);
}
