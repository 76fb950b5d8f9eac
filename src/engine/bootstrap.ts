/** The first start on a data folder: it creates a project and a token, which is shown to the operator once. */
import { FIRST_PROJECT } from '../contract/projects.js';
import type { Engine } from './engine.js';

/**
 * Creates the first project and its token, once in the life of a data folder.
 * @returns the token; null at any later start
 * @throws EngineError database_unavailable, outcome_unknown
 */
export async function bootstrap({ control, projects, tokens }: Engine): Promise<string | null> {
  if (!(await control.isFirstStart())) return null;
  const existing = await control.projects.find('name', FIRST_PROJECT.name);
  const project = existing ?? (await projects.create(FIRST_PROJECT.name));
  const { token } = await tokens.create(project.id, { name: FIRST_PROJECT.token });
  await control.endFirstStart();
  return token;
}
