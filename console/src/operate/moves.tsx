/** Moves of projects between servers: those that a rebalance would make, running ones, and the last ones that ended. */
import { CANCELABLE_STATES } from '../../../src/contract/moves.js';
import type { Move, PlannedMove } from '../../../src/contract/wire/moves.js';
import type { Server } from '../../../src/contract/wire/servers.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { useLoaded } from '../parts/loaded.js';
import { count, duration, size, dayAndTime } from '../parts/formats.js';
import { actionColumn, Table } from '../parts/table.js';
import { linkTo } from '../route.js';
import { cancelMove, listMoves, planRebalance } from './admin-api.js';
import { MoveForm } from './move-form.js';
import { Status } from './facts.js';

const EVERY_MS = 3_000;

export function Moves({ servers }: { servers: readonly Server[] }) {
  const { value: moves, error, reload } = useLoaded(listMoves, '', EVERY_MS);
  const { dialog, open } = useDialog();
  const cancel = (move: Move) =>
    open((close) => <CancelMove move={move} onClose={close} onDone={() => void reload()} />);
  return (
    <>
      {servers.length > 1 && <Rebalance servers={servers} onMove={() => void reload()} />}
      <section aria-labelledby="moves">
        <h2 id="moves">Moves</h2>
        <Alert>{error}</Alert>
        {moves?.length === 0 && (
          <p class="quiet">
            No project has moved yet. The page of a project moves it, if there is another server to move to.
          </p>
        )}
        {moves !== undefined && moves.length > 0 && <MoveTable moves={moves} onCancel={cancel} />}
      </section>
      {dialog}
    </>
  );
}

interface CancelMoveProps {
  readonly move: Move;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const CancelMove = ({ move: { id, project, from }, onClose, onDone }: CancelMoveProps) => (
  <ActionForm
    title={`Cancel the move of ${project}`}
    action="Cancel the move"
    keep="Continue the move"
    done="Move canceled"
    isDangerous
    request={cancelMove(id)}
    onClose={onClose}
    onDone={onDone}
  >
    <p>
      {project} stays on {from}, and takes writes again at once. What was copied is removed.
    </p>
  </ActionForm>
);

const MoveTable = ({ moves, onCancel }: { moves: readonly Move[]; onCancel: (move: Move) => void }) => (
  <Table
    label="List of moves"
    rows={moves}
    keyOf={({ id }) => id}
    columns={[
      {
        title: 'Project',
        cells: 'is-text',
        cell: ({ project }) => <a href={linkTo('projects', project)}>{project}</a>,
      },
      { title: 'From, to', cell: ({ from, to }) => `${from} → ${to}` },
      {
        title: 'State',
        cells: 'is-text',
        cell: ({ state, reason }) => (
          <>
            <Status status={state} />
            {reason !== null && <p class="quiet">{reason}</p>}
          </>
        ),
      },
      { title: 'Rows', class: 'is-number wide-only', cell: ({ rows }) => count(rows) },
      { title: 'Copied', class: 'is-number wide-only', cell: ({ bytes }) => size(bytes) },
      {
        title: 'No writes for',
        class: 'is-number wide-only',
        cell: ({ pause_ms: pause }) => pause !== null && duration(pause),
      },
      {
        title: 'Started',
        class: 'wide-only',
        cell: ({ started_at: at }) => <time dateTime={at}>{dayAndTime(at)}</time>,
      },
      actionColumn({
        text: 'Cancel',
        label: ({ project }) => `Cancel the move of ${project}`,
        run: onCancel,
        isShown: ({ state }) => CANCELABLE_STATES.includes(state),
      }),
    ]}
  />
);

/** The list of the command `cdp rebalance`. It is loaded again when the servers or their projects change. */
function Rebalance({ servers, onMove }: { servers: readonly Server[]; onMove: () => void }) {
  const key = servers.map(({ name, status, projects }) => `${name} ${status} ${projects}`).join();
  const { value: planned = [] } = useLoaded(planRebalance, key);
  const { dialog, open } = useDialog();
  const move = ({ project, from, to }: PlannedMove) =>
    open((close) => (
      <MoveForm project={project} from={from} to={to ?? undefined} servers={servers} onClose={close} onDone={onMove} />
    ));
  if (planned.length === 0) return null;
  return (
    <section aria-labelledby="rebalance">
      <h2 id="rebalance">A rebalance would move</h2>
      <ul class="planned">
        {planned.map((one) => (
          <li key={one.project}>
            <span>
              <a href={linkTo('projects', one.project)}>{one.project}</a>{' '}
              <span class="quiet">
                {one.from} → {one.to ?? 'no other server accepts it'}
              </span>
              {Object.entries(one.obstacles ?? {}).map(([server, why]) => (
                <span key={server} class="quiet">
                  {' '}
                  · {server}: {why}
                </span>
              ))}
            </span>
            {one.to !== null && (
              <button
                type="button"
                class="button is-quiet"
                aria-label={`Move ${one.project} to ${one.to}`}
                onClick={() => move(one)}
              >
                Move …
              </button>
            )}
          </li>
        ))}
      </ul>
      {dialog}
    </section>
  );
}
