/** `cdp rebalance`: empties servers that are draining, and spreads projects over the others. */
import { Command } from 'commander';
import { counted } from '../contract/message-text.js';
import { messageOf } from '../contract/errors.js';
import type { PlannedMove, RebalanceResponse } from '../contract/wire/moves.js';
import { operatorOptions, withAdminSocket } from './operator-commands.js';
import { moveAndWait, type MoveFlags, moveOptions, moveSettings } from './project-move.js';
import { abortOnSignals } from './signals.js';
import { tableLines } from './terminal/grid.js';
import { print, warn } from './terminal/output.js';

export function rebalanceCommand(): Command {
  const command = moveOptions(
    new Command('rebalance')
      .description('Move projects off draining servers, and balance the other servers by weight')
      .option('--plan', 'List the moves; change nothing (default)')
      .option('--apply', 'Carry out the moves, one after the other'),
  );
  return operatorOptions(command).action(() => {
    const { apply, ...options } = command.opts<MoveFlags & { apply?: boolean }>();
    const way = moveSettings(options);
    return withAdminSocket(command, async (admin) => {
      const { moves } = await admin.call<RebalanceResponse>('GET', 'admin/rebalance');
      if (!apply) {
        print(command, moves, moves.length === 0 ? ['No project has to move'] : tableOf(moves));
        return;
      }
      const failed: string[] = [];
      let movedCount = 0;
      await abortOnSignals(async (signal) => {
        for (const { project, to, obstacles } of moves) {
          try {
            if (signal.aborted) throw new Error(`Project ${project} stays where it is: the command was interrupted`);
            if (to === null) throw new Error(`Project ${project}: ${whyNot(obstacles)}`);
            await moveAndWait(admin, project, { to, ...way }, signal);
            movedCount++;
          } catch (error) {
            failed.push(messageOf(error));
            warn(messageOf(error));
          }
        }
      });
      print(command, { moved: movedCount, failed }, [`${counted(movedCount, 'project')} moved`]);
      if (failed.length > 0) process.exitCode = 1;
    });
  });
}

const tableOf = (moves: readonly PlannedMove[]): string[] =>
  tableLines(
    ['PROJECT', 'FROM', 'TO'],
    moves.map(({ project, from, to, obstacles }) => [project, from, to ?? whyNot(obstacles)]),
  );

const whyNot = (obstacles: PlannedMove['obstacles'] = {}): string =>
  ['no server accepts it', ...Object.entries(obstacles).map(([server, why]) => `${server}: ${why}`)].join('; ');
