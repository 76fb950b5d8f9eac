/** `cdp project …`: create, list, activate, deactivate, archive, repair, limit and delete projects. */
import { createInterface } from 'node:readline/promises';
import { Argument, Command } from 'commander';
import { roundedSize } from '../contract/disk-size.js';
import type { Project, ProjectAnswer, ProjectsAnswer, RepairAnswer } from '../contract/wire/projects.js';
import { aligned } from './terminal/grid.js';
import { printable } from './terminal/text.js';
import type { AdminClient } from './admin-client.js';
import { UsageError } from './exit.js';
import { managementOptions, withAdmin } from './management.js';
import { print } from './terminal/output.js';

export function projectCommand(): Command {
  return new Command('project')
    .description('Manage projects')
    .addCommand(
      simple('create', 'Create a project with a database of its own', 'created', (admin, name) =>
        admin.call('POST', 'admin/projects', { name }),
      ),
    )
    .addCommand(list())
    .addCommand(
      simple('activate', 'Activate a deactivated project', 'active', (admin, name) =>
        admin.call('POST', `${pathOf(name)}/activate`),
      ),
    )
    .addCommand(
      simple('deactivate', 'Deactivate a project: reject all its requests with 403', 'inactive', (admin, name) =>
        admin.call('POST', `${pathOf(name)}/deactivate`),
      ),
    )
    .addCommand(archive())
    .addCommand(repair())
    .addCommand(quota())
    .addCommand(remove());
}

const pathOf = (name: string): string => `admin/projects/${encodeURIComponent(name)}`;

/** A command that does one thing to one project. */
function simple(
  verb: string,
  description: string,
  outcome: string,
  work: (admin: AdminClient, name: string) => Promise<ProjectAnswer>,
): Command {
  const command = new Command(verb).description(description).argument('<NAME>');
  return managementOptions(command).action((name: string) =>
    withAdmin(command, async (admin) => {
      const { project } = await work(admin, name);
      print(command, project, [`Project ${project.name} ${outcome}`]);
    }),
  );
}

function list(): Command {
  const command = new Command('list').description('List all projects');
  return managementOptions(command).action(() =>
    withAdmin(command, async (admin) => {
      const { projects } = await admin.call<ProjectsAnswer>('GET', 'admin/projects');
      print(command, projects, aligned([['NAME', 'STATUS', 'SIZE', 'QUOTA', 'CREATED'], ...projects.map(cellsOf)]));
    }),
  );
}

const cellsOf = ({ name, status, size_bytes: size, quota, created_at: created }: Project): string[] => [
  name,
  status,
  size === undefined ? '-' : roundedSize(size),
  quota,
  created,
];

function archive(): Command {
  const command = new Command('archive')
    .description("Archive a project's write-ahead log, so that a backup can be restored to any later time")
    .argument('<NAME>')
    .addArgument(new Argument('<on|off>').choices(['on', 'off']));
  return managementOptions(command).action((name: string, state: string) =>
    withAdmin(command, async (admin) => {
      const on = state === 'on';
      await admin.call('POST', 'local/archive', { project: name, on });
      print(command, { name, archive: on }, [`WAL archiving of project ${name} is ${state}`]);
    }),
  );
}

function repair(): Command {
  const command = new Command('repair')
    .description('Restore the roles, privileges and schema that a project has changed by its own SQL; keeps its rows')
    .argument('<NAME>');
  return managementOptions(command).action((name: string) =>
    withAdmin(command, async (admin) => {
      const { project, repaired } = await admin.call<RepairAnswer>('POST', `${pathOf(name)}/repair`);
      const lines = [`Project ${project.name} repaired`, ...repaired.map((what) => `- ${printable(what)}`)];
      print(command, { ...project, repaired }, lines);
    }),
  );
}

function quota(): Command {
  const command = new Command('quota')
    .description('Set the disk quota of a project: a size such as 10GB, "default" or "none"')
    .argument('<NAME>')
    .argument('<SIZE>');
  return managementOptions(command).action((name: string, size: string) =>
    withAdmin(command, async (admin) => {
      const { project } = await admin.call<ProjectAnswer>('PUT', `${pathOf(name)}/quota`, { quota: size });
      print(command, project, [`Project ${project.name} has the quota ${project.quota}`]);
    }),
  );
}

function remove(): Command {
  const command = new Command('delete')
    .description('Delete a project with everything in it; this cannot be undone')
    .argument('<NAME>')
    .option('--yes', 'Do not ask for confirmation');
  return managementOptions(command).action(async (name: string) => {
    if (command.opts<{ yes?: boolean }>().yes !== true) await confirm(name);
    await withAdmin(command, async (admin) => {
      const query = `confirm=${encodeURIComponent(name)}`;
      const { project } = await admin.call<ProjectAnswer>('DELETE', `${pathOf(name)}?${query}`);
      print(command, project, [`Project ${project.name} deleted`]);
    });
  });
}

/** A person types the name again; a script has to say --yes. */
async function confirm(name: string): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new UsageError(`Deleting "${name}" cannot be undone. Without a terminal it needs --yes`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const left = new Promise<string>((resolve) => terminal.once('close', () => resolve('')).once('SIGINT', resolve));
  try {
    const question = `Deleting "${name}" cannot be undone. Type its name to confirm: `;
    const answer = await Promise.race([terminal.question(question), left]);
    if (answer !== name) throw new Error('Not deleted: the name was not typed');
  } finally {
    terminal.close();
  }
}
