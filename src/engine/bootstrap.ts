/** The first start on a data directory: it creates a project, whose token the operator is shown once. */
import type { Engine } from './engine.js';

const FIRST_PROJECT = 'default';

/**
 * Creates the first project and its token, once in the life of a data directory.
 * @returns the token; null at any later start
 * @throws EngineError database_unavailable, outcome_unknown
 */
export async function bootstrap({ control, projects, tokens }: Engine): Promise<string | null> {
  if (!(await control.isFirstStart())) return null;
  const existing = await control.projectBy('name', FIRST_PROJECT);
  const project = existing ?? (await projects.create(FIRST_PROJECT));
  const { token } = await tokens.create(project.id, { name: 'first start' });
  await control.endFirstStart();
  return token;
}
