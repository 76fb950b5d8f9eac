/** Moves of projects between servers: those that a rebalance would make, those that run, and the last that ended. */
import { useSignal } from '@preact/signals';
import type { Move, PlannedMove } from '../../../src/contract/wire/moves.js';
import type { Server } from '../../../src/contract/wire/servers.js';
import { ActionForm } from '../parts/action-form.js';
import { useLoaded } from '../parts/loaded.js';
import { count, duration, size } from '../parts/numbers.js';
import { dayAndTime } from '../parts/times.js';
import { linkTo } from '../route.js';
import { cancelMove, listMoves, planRebalance } from './admin-api.js';
import { MoveForm } from './move-form.js';
import { Status } from './status.js';

const EVERY_MS = 3_000;

/** Until these are over, a move can be canceled. */
const BEFORE_SWITCH = ['preparing', 'fencing', 'copying', 'verifying'];

export function Moves({ servers }: { servers: readonly Server[] }) {
  const { value: moves, error, reload } = useLoaded(listMoves, '', EVERY_MS);
  const canceling = useSignal<Move | null>(null);
  return (
    <>
      {servers.length > 1 && <Rebalance servers={servers} onMove={() => void reload()} />}
      <section aria-labelledby="moves">
        <h2 id="moves">Moves</h2>
        <p class="bad" role="alert">
          {error}
        </p>
        {moves?.length === 0 && (
          <p class="quiet">
            No project has moved yet. The page of a project moves it, if there is another server to move to.
          </p>
        )}
        {moves !== undefined && moves.length > 0 && (
          <MoveTable moves={moves} onCancel={(move) => (canceling.value = move)} />
        )}
      </section>
      {canceling.value !== null && (
        <ActionForm
          title={`Cancel the move of ${canceling.value.project}`}
          action="Cancel the move"
          keep="Continue the move"
          done="Move canceled"
          isDangerous
          request={cancelMove(canceling.value.id)}
          onClose={() => (canceling.value = null)}
          onDone={() => void reload()}
        >
          <p>
            {canceling.value.project} stays on {canceling.value.from}, and takes writes again at once. What was copied
            is removed.
          </p>
        </ActionForm>
      )}
    </>
  );
}

const MoveTable = ({ moves, onCancel }: { moves: readonly Move[]; onCancel: (move: Move) => void }) => (
  <div class="scroll" tabIndex={0} role="region" aria-label="List of moves">
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Project</th>
          <th scope="col">From, to</th>
          <th scope="col">State</th>
          <th scope="col" class="is-number wide-only">
            Rows
          </th>
          <th scope="col" class="is-number wide-only">
            Copied
          </th>
          <th scope="col" class="is-number wide-only">
            No writes for
          </th>
          <th scope="col" class="wide-only">
            Started
          </th>
          <th scope="col">
            <span class="sr-only">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {moves.map((move) => (
          <tr key={move.id}>
            <th scope="row" class="is-text">
              <a href={linkTo('projects', move.project)}>{move.project}</a>
            </th>
            <td>
              {move.from} → {move.to}
            </td>
            <td class="is-text">
              <Status status={move.state} />
              {move.reason !== null && <p class="quiet">{move.reason}</p>}
            </td>
            <td class="is-number wide-only">{count(move.rows)}</td>
            <td class="is-number wide-only">{size(move.bytes)}</td>
            <td class="is-number wide-only">{move.pause_ms === null ? '' : duration(move.pause_ms)}</td>
            <td class="wide-only">
              <time dateTime={move.started_at}>{dayAndTime(move.started_at)}</time>
            </td>
            <td class="is-end">
              {BEFORE_SWITCH.includes(move.state) && (
                <button
                  type="button"
                  class="button is-quiet"
                  aria-label={`Cancel the move of ${move.project}`}
                  onClick={() => onCancel(move)}
                >
                  Cancel
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

/** What the command `cdp rebalance` lists; it is asked again when the servers or their projects change. */
function Rebalance({ servers, onMove }: { servers: readonly Server[]; onMove: () => void }) {
  const key = servers.map(({ name, status, projects }) => `${name} ${status} ${projects}`).join();
  const { value: planned = [] } = useLoaded(planRebalance, key);
  const moving = useSignal<PlannedMove | null>(null);
  if (planned.length === 0) return null;
  return (
    <section aria-labelledby="rebalance">
      <h2 id="rebalance">A rebalance would move</h2>
      <ul class="planned">
        {planned.map((move) => (
          <li key={move.project}>
            <span>
              <a href={linkTo('projects', move.project)}>{move.project}</a>{' '}
              <span class="quiet">
                {move.from} → {move.to ?? 'no other server takes it'}
              </span>
            </span>
            {move.to !== null && (
              <button
                type="button"
                class="button is-quiet"
                aria-label={`Move ${move.project} to ${move.to}`}
                onClick={() => (moving.value = move)}
              >
                Move …
              </button>
            )}
          </li>
        ))}
      </ul>
      {moving.value !== null && (
        <MoveForm
          project={moving.value.project}
          from={moving.value.from}
          to={moving.value.to ?? undefined}
          servers={servers}
          onClose={() => (moving.value = null)}
          onDone={onMove}
        />
      )}
    </section>
  );
}
