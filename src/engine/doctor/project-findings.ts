/** The findings of `cdp doctor` about projects: whether the roles and privileges of each are intact. */
import { isReady } from '../../contract/projects.js';
import { messageOf } from '../../contract/operator-message.js';
import type { Finding } from '../../contract/wire/operator.js';
import type { Engine } from '../engine.js';
import { ok, problem, warning } from '../servers/finding.js';

/** Maximum number of projects that one finding names. */
const NAMED = 5;

/**
 * Does not start a stopped server. The same problem in several projects becomes one finding.
 * @param unreachable servers that could not be reached
 */
export async function examineProjects({ projects }: Engine, unreachable: ReadonlySet<string>): Promise<Finding[]> {
  const all = await projects.list();
  const [interrupted, drifted] = [new Map<string, string[]>(), new Map<string, string[]>()];
  const unreached = new Map<string, string[]>();
  let stopped = 0;
  for (const project of all) {
    const { name, status } = project;
    if (!isReady(project)) {
      add(interrupted, `interrupted while ${status}`, name);
    } else if (unreachable.has(project.placement.server)) {
      add(unreached, project.placement.server, name);
    } else if (!projects.runs(project)) {
      stopped++;
    } else {
      const drift = await projects.examine(project).catch((error: unknown) => [messageOf(error)]);
      if (drift.length > 0) add(drifted, drift.join('; '), name);
    }
  }
  const findings = [
    ...Array.from(interrupted, ([found, names]) =>
      warning(...subjectOf(names, found), 'The service removes it at its next start; or run cdp project delete.'),
    ),
    ...Array.from(drifted, ([found, names]) =>
      problem(...subjectOf(names, found), `cdp project repair ${names.length === 1 ? names[0] : '--all'}`),
    ),
    ...Array.from(unreached, ([server, names]) =>
      problem(...subjectOf(names, `not checked: the server ${server} does not answer`), `cdp server check ${server}`),
    ),
  ];
  if (findings.length > 0) return findings;
  const intact = `${all.length - stopped} checked: roles and privileges are intact`;
  const servers = stopped === 1 ? 'its server is' : 'their servers are';
  const skipped = `${stopped} not checked, because ${servers} stopped until the next request`;
  if (stopped === 0) return [ok('projects', intact)];
  return [ok('projects', stopped === all.length ? skipped : `${intact}; ${skipped}`)];
}

function add(groups: Map<string, string[]>, found: string, name: string): void {
  groups.set(found, [...(groups.get(found) ?? []), name]);
}

/** The subject and the text of a finding. */
function subjectOf(names: readonly string[], found: string): [string, string] {
  if (names.length === 1) return [`project ${names[0]}`, found];
  const more = names.length > NAMED ? ', …' : '';
  return [`${names.length} projects`, `${found}: ${names.slice(0, NAMED).join(', ')}${more}`];
}
