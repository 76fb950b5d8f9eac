/** `cdp project …`: create, list, activate, deactivate, repair, set the quota of and delete projects. */
import { createInterface } from 'node:readline/promises';
import { Command } from 'commander';
import { roundedSize } from '../contract/disk-size.js';
import { EngineError } from '../contract/errors.js';
import { quotaBytes, shownProject } from '../http/api/admin-views.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import { aligned, commandLine, managementOptions, print, withEngine } from './management.js';

export function projectCommand(): Command {
  return new Command('project')
    .description('Manage projects')
    .addCommand(
      onOne(
        'create',
        'Create a project with a database of its own',
        'created',
        (engine, name) => engine.projects.create(name, commandLine()),
        { make: true },
      ),
    )
    .addCommand(list())
    .addCommand(
      onOne('activate', 'Let a project be used again', 'active', (engine, name) =>
        engine.projects.setActive(name, true, commandLine()),
      ),
    )
    .addCommand(
      onOne('deactivate', 'Answer every call of a project with 403', 'inactive', (engine, name) =>
        engine.projects.setActive(name, false, commandLine()),
      ),
    )
    .addCommand(repair())
    .addCommand(quota())
    .addCommand(remove());
}

type Work = (engine: Parameters<Parameters<typeof withEngine>[1]>[0], name: string) => Promise<ProjectRow>;

function onOne(verb: string, description: string, outcome: string, work: Work, { make = false } = {}): Command {
  const command = new Command(verb).description(description).argument('<NAME>');
  return managementOptions(command).action(async (name: string) => {
    const project = await withEngine(command, (engine) => work(engine, name), { make });
    print(command, shownProject(project), [`Project ${project.name} ${outcome}`]);
  });
}

function repair(): Command {
  const command = new Command('repair')
    .description('Put right what a project did to its own roles, rights and schema; its rows stay as they are')
    .argument('<NAME>');
  return managementOptions(command).action(async (name: string) => {
    const { project, repaired } = await withEngine(command, (engine) => engine.projects.repair(name, commandLine()));
    const lines = [`Project ${project.name} repaired`, ...repaired.map((what) => `- ${what}`)];
    print(command, { ...shownProject(project), repaired }, lines);
  });
}

function list(): Command {
  const command = new Command('list').description('List all projects');
  return managementOptions(command).action(async () => {
    const projects = await withEngine(command, async (engine) => {
      const rows = await engine.projects.list();
      const sizes = await engine.sizesOf(rows);
      return rows.map((project) => shownProject(project, sizes.get(project.id)));
    });
    const rows = projects.map(({ name, status, size_bytes: size, quota: allowed, created_at: created }) => {
      return [name, status, size === undefined ? '-' : roundedSize(size), allowed, created];
    });
    print(command, projects, aligned([['NAME', 'STATUS', 'SIZE', 'QUOTA', 'CREATED'], ...rows]));
  });
}

function quota(): Command {
  const command = new Command('quota')
    .description('Set the disk quota of a project: a size such as 10GB, "default" or "none"')
    .argument('<NAME>')
    .argument('<SIZE>');
  return managementOptions(command).action(async (name: string, size: string) => {
    const bytes = quotaBytes(size);
    const project = shownProject(
      await withEngine(command, (engine) => engine.projects.setQuota(name, bytes, commandLine())),
    );
    print(command, project, [`Project ${project.name} has the quota ${project.quota}`]);
  });
}

function remove(): Command {
  const command = new Command('delete')
    .description('Delete a project with everything in it; there is no way back')
    .argument('<NAME>')
    .option('--yes', 'Without being asked');
  return managementOptions(command).action(async (name: string) => {
    if (command.opts<{ yes?: boolean }>().yes !== true) await confirm(name);
    const project = await withEngine(command, (engine) => engine.deleteProject(name, commandLine()));
    print(command, shownProject(project), [`Project ${project.name} deleted`]);
  });
}

/** A person types the name again; nobody is there to do so in a script, which has to say that it means it. */
async function confirm(name: string): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new EngineError('invalid_request', `Deleting "${name}" cannot be undone. Without a terminal it takes --yes`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const left = new Promise<string>((resolve) => terminal.once('close', () => resolve('')).once('SIGINT', resolve));
  try {
    const question = `Deleting "${name}" cannot be undone. Type its name to go on: `;
    const answer = await Promise.race([terminal.question(question), left]);
    if (answer !== name) throw new Error('Not deleted: its name was not typed');
  } finally {
    terminal.close();
  }
}
