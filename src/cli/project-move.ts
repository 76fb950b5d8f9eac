/** `cdp project move` and `cdp project moves`: move a project to another Postgres server while it is in use. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import { roundedSize } from '../contract/disk-size.js';
import { MOVE_MODES, type MoveMode, VERIFICATIONS, type Verification } from '../contract/moves.js';
import type { Move, MoveResponse, MovePlanResponse, MoveProjectBody, MovesResponse } from '../contract/wire/moves.js';
import type { AdminSocketClient } from './admin-socket-client.js';
import { UsageError } from './exit.js';
import { operatorOptions, operatorAction, parseDuration, withAdminSocket } from './operator-commands.js';
import { needsOption } from './remote/remote-options.js';
import { abortOnSignals } from './signals.js';
import { tableLines } from './terminal/grid.js';
import { print, warn } from './terminal/output.js';
import { countedRows } from './terminal/progress.js';

const POLL_MS = 250;

/** How often to report progress, on a terminal and elsewhere. */
const [REPORT_MS, LOG_MS] = [1_000, 10_000];

export interface MoveFlags {
  mode: MoveMode;
  verify: Verification;
  maxPause?: string;
}

export const moveOptions = (command: Command): Command =>
  command
    .addOption(
      new Option(
        '--mode <MODE>',
        'copy: writes wait until all rows are copied; stream: writes wait only for the final changes',
      )
        .choices(MOVE_MODES)
        .default('copy'),
    )
    .addOption(
      new Option('--verify <WHAT>', 'Before the switch, compare schema and row counts, or also all rows')
        .choices(VERIFICATIONS)
        .default('counts'),
    )
    .option(
      '--max-pause <DURATION>',
      'Undo the move if writes would be refused for longer than this, such as 30s or 5m',
    );

/** @throws UsageError */
export function moveSettings({ mode, verify, maxPause }: MoveFlags): Omit<MoveProjectBody, 'to'> {
  return { mode, verify, ...(maxPause !== undefined && { max_pause: secondsOf(maxPause) }) };
}

interface Options extends MoveFlags {
  to: string;
  dryRun?: boolean;
}

export function moveCommand(): Command {
  const command = moveOptions(
    needsOption(
      new Command('move')
        .description('Move a project to another Postgres server while it is in use')
        .argument('<NAME>'),
      '--to <SERVER>',
      'Target server, by its name in `cdp server list`',
    ),
  ).option('--dry-run', 'Show what prevents the move; change nothing');
  return operatorOptions(command).action((name: string) => {
    const { to, dryRun, ...options } = command.opts<Options>();
    const body = { to, ...moveSettings(options) };
    return withAdminSocket(command, async (admin) => {
      if (dryRun) return showPlan(command, admin, name, { to, mode: options.mode });
      const finalMove = await abortOnSignals((signal) => moveAndWait(admin, name, body, signal));
      const pauseOf =
        finalMove.pause_ms === null ? '' : `, ${(finalMove.pause_ms / 1_000).toFixed(1)} s without writes`;
      print(command, finalMove, [`Project ${name} lives on ${finalMove.to} (${copied(finalMove)}${pauseOf})`]);
    });
  });
}

/**
 * Moves a project, and reports progress on standard error.
 * @param interrupted cancels the move, which is then undone unless it has switched
 * @throws EngineError; Error with the reason if it was undone
 */
export async function moveAndWait(
  admin: AdminSocketClient,
  name: string,
  body: MoveProjectBody,
  interrupted: AbortSignal,
): Promise<Move> {
  const { move } = await admin.call<MoveResponse>('POST', `admin/projects/${encodeURIComponent(name)}/move`, body);
  const finalMove = await untilEnded(admin, move, interrupted);
  if (!['switched', 'done'].includes(finalMove.state)) {
    throw new Error(`Project ${name} stays on ${finalMove.from}: ${finalMove.reason}`);
  }
  return finalMove;
}

/** `231,083 rows, 23.4 MB` */
const copied = ({ rows, bytes }: Move): string => `${countedRows(rows)}, ${roundedSize(bytes)}`;

/** @throws UsageError */
function secondsOf(text: string): number {
  const ms = parseDuration(text);
  if (ms === null || ms < 1_000) throw new UsageError('--max-pause takes a duration such as 30s or 5m');
  return ms / 1_000;
}

async function showPlan(
  command: Command,
  admin: AdminSocketClient,
  name: string,
  { to, mode }: Pick<Options, 'to' | 'mode'>,
): Promise<void> {
  const path = `admin/projects/${encodeURIComponent(name)}/move?to=${encodeURIComponent(to)}&mode=${mode}`;
  const plan = await admin.call<MovePlanResponse>('GET', path);
  const { bytes, obstacles, warnings, fallback, from } = plan;
  const size = bytes === null ? '' : ` (${roundedSize(bytes)})`;
  print(command, { project: plan.project, from, to, bytes, obstacles, warnings, fallback }, [
    obstacles.length === 0
      ? `Project ${name}${size} can move from ${from} to ${to}`
      : `Project ${name} cannot move to ${to}:`,
    ...obstacles.map((obstacle) => `- ${obstacle}`),
    ...warnings.map((warning) => `Warning: ${warning}`),
    ...(fallback === null ? [] : [notStreamed(fallback)]),
  ]);
  if (obstacles.length > 0) process.exitCode = 1;
}

const notStreamed = (fallback: string): string => `It is copied, not streamed: ${fallback}`;

async function untilEnded(admin: AdminSocketClient, startedMove: Move, signal: AbortSignal): Promise<Move> {
  const reporter = new Reporter();
  let move = startedMove;
  let isCanceled = false;
  while (move.ended_at === null) {
    reporter.report(move);
    if (signal.aborted && move.state === 'switched') {
      // The service keeps trying, for days if necessary.
      warn(`${move.project}: it lives on ${move.to} already; its old copy on ${move.from} is not dropped yet`);
      return move;
    }
    if (signal.aborted && !isCanceled) {
      isCanceled = true;
      warn(`${move.project}: canceling`);
      // It may be too late, which its state will show.
      await admin.call('DELETE', `admin/moves/${move.id}`).catch((error: Error) => warn(error.message));
    }
    await sleep(POLL_MS);
    ({ move } = await admin.call<MoveResponse>('GET', `admin/moves/${move.id}`));
  }
  return move;
}

/** Reports a fallback and each state once, and progress at intervals. */
class Reporter {
  private readonly intervalMs = process.stderr.isTTY ? REPORT_MS : LOG_MS;
  private hasFallenBack = false;
  private state = '';
  private rows = 0;
  private rowsAt = performance.now();

  report(move: Move): void {
    const { project, state, rows, fallback } = move;
    if (fallback !== null && !this.hasFallenBack) {
      warn(`${project}: ${notStreamed(fallback)}`);
      this.hasFallenBack = true;
    }
    if (state !== this.state) {
      warn(`${project}: ${state}`);
      this.state = state;
    } else if (rows > this.rows && performance.now() > this.rowsAt + this.intervalMs) {
      warn(`${project}: ${state}, ${copied(move)}`);
      this.rows = rows;
      this.rowsAt = performance.now();
    }
  }
}

export function movesCommand(): Command {
  const command = new Command('moves').description('List the latest moves of projects').argument('[NAME]');
  return operatorAction(command, async (admin, name: string | undefined) => {
    const query = name === undefined ? '' : `?project=${encodeURIComponent(name)}`;
    const { moves } = await admin.call<MovesResponse>('GET', `admin/moves${query}`);
    print(
      command,
      moves,
      tableLines(['PROJECT', 'FROM', 'TO', 'STATE', 'ROWS', 'STARTED', 'REASON'], moves.map(cellsOf)),
    );
  });
}

function cellsOf({ project, from, to, state, rows, started_at: started, reason }: Move): string[] {
  return [project, from, to, state, String(rows), started, reason ?? ''];
}
