/** `cdp doctor`: checks everything that the service depends on, and gives advice. */
import { Command } from 'commander';
import { messageOf } from '../contract/errors.js';
import { counted } from '../contract/message-text.js';
import { type Finding, type Health, ok, problem } from '../contract/wire/findings.js';
import { hasPostgres } from '../postgres.js';
import { examineDisk } from '../engine/doctor/machine-findings.js';
import type { SettingName } from '../settings.js';
import { VERSION } from '../version.js';
import { operatorOptions, WHERE_ELSE, withAdminSocket } from './operator-commands.js';
import { withProgramName } from './exit.js';
import { DATABASE_SETTINGS, readConfig } from './setting-flags.js';
import { colored, printable } from './terminal/text.js';
import { aligned } from './terminal/grid.js';
import { print, writeLines } from './terminal/output.js';

const SETTINGS: readonly SettingName[] = [...DATABASE_SETTINGS, 'maxConnections'];

export function doctorCommand(): Command {
  const command = new Command('doctor').description(
    'Check the database, privileges, durability, disk, clock and projects, and suggest fixes',
  );
  return operatorOptions(command, SETTINGS).action(async () => {
    const findings: Finding[] = [];
    const { json } = command.opts<{ json?: boolean }>();
    await findAll(command, (finding) => {
      findings.push(finding);
      if (!json) writeLines(findingLines([finding], SUBJECT_WIDTH));
    });
    const [problems, warnings] = [countOf(findings, 'problem'), countOf(findings, 'warning')];
    const lines = [`${counted(problems, 'problem')}, ${counted(warnings, 'warning')}`];
    print(command, { problems, warnings, findings }, lines, writeLines);
    if (problems > 0) process.exitCode = 1;
  });
}

/** Findings are printed one by one, so the width of the column cannot follow from all of them. */
const SUBJECT_WIDTH = 'control schema'.length;

async function findAll(command: Command, onFinding: (finding: Finding) => void): Promise<void> {
  const config = readConfig(command);
  onFinding(ok('version', VERSION));
  if (!(await hasPostgres(config)))
    return onFinding(noPostgres(`There is no database in ${config.dataDir}.`, WHERE_ELSE));
  const watching = { signal: new AbortController().signal, progress: () => {}, onFinding };
  try {
    await withAdminSocket(command, (admin) => admin.callWithProgress('local/doctor', { version: VERSION }, watching), {
      opensLate: true,
    });
  } catch (error) {
    if (config.databaseUrl !== null) return onFinding(noPostgres(messageOf(error), CHECK_URL));
    // A full disk is the most likely reason.
    onFinding(noPostgres(messageOf(error), SEE_LOGS));
    onFinding(await examineDisk(config.dataDir, config.diskReserveMib * 1024 * 1024));
  }
}

const SEE_LOGS = 'See postgres/control/postgres.log in the data folder.';
const CHECK_URL = 'Check DATABASE_URL: docs/operations.md, "Your own Postgres".';

const noPostgres = (found: string, advice: string): Finding => problem('Postgres', found, advice);

// Formats findings for people: one line each, with advice below it.

const MARKS: Readonly<Record<Health, string>> = { ok: 'ok', warning: 'WARNING', problem: 'PROBLEM' };

const inColor = (health: Health, line: string): string =>
  health === 'ok' ? line : colored(process.stdout, health === 'warning' ? 'yellow' : 'red', line);

export const countOf = (findings: readonly Finding[], health: Health): number =>
  findings.filter((finding) => finding.health === health).length;

/** @param subjectWidth of the column, at least */
export function findingLines(findings: readonly Finding[], subjectWidth = 0): string[] {
  const cells = ({ health, subject, found }: Finding) => [
    MARKS[health].padEnd(MARKS.problem.length),
    subject.padEnd(subjectWidth),
    withProgramName(found),
  ];
  const rows = aligned(findings.map(cells));
  return findings.flatMap(({ health, advice }, i) => [
    inColor(health, rows[i] ?? ''),
    ...(advice === null ? [] : [`    -> ${printable(withProgramName(advice))}`]),
  ]);
}
