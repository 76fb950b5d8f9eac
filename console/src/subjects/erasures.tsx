/** The erasures of the project, and the page of one: how far it is, what it did, and its receipt. */
import type { Erasure, ErasureResponse, ErasuresResponse } from '../../../src/contract/wire/subjects.js';
import { Alert } from '../parts/announcements.js';
import { send } from '../parts/api-request.js';
import { copyText } from '../parts/clipboard.js';
import { ago, counted, dayAndTime, duration } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Table } from '../parts/table.js';
import { offerFile } from '../results/download.js';
import { linkTo } from '../route.js';
import { Outcome } from './outcome.js';

const RELOAD_MS = 2_000;

const PATH = '/api/cdp/subjects/erasures';

const STATES: Readonly<Record<Erasure['state'], string>> = {
  running: 'is erasing',
  cleaning: 'erased; space is being freed',
  done: 'done',
  failed: 'failed: nothing was erased',
};

export function Erasures() {
  const load = async () => (await send<ErasuresResponse>({ method: 'GET', path: PATH })).erasures;
  const { value: erasures, error } = useLoaded(load, '', RELOAD_MS);
  return (
    <section aria-busy={erasures === undefined && error === ''}>
      <h2>Erasures</h2>
      <Alert>{error}</Alert>
      {erasures?.length === 0 && <p class="quiet">Nobody has been erased yet.</p>}
      {erasures !== undefined && erasures.length > 0 && (
        <Table
          label="List of erasures"
          rows={erasures}
          keyOf={({ id }) => id}
          columns={[
            {
              title: 'Begun',
              cell: ({ id, created_at: at }) => (
                <a href={linkTo('people', 'erasures', id)}>
                  <time dateTime={at}>{dayAndTime(at)}</time>
                </a>
              ),
            },
            { title: 'Kind', class: 'wide-only', cell: ({ kind, deep }) => (deep ? `${kind}, deep` : kind) },
            { title: 'State', cells: 'is-text', cell: ({ state }) => STATES[state] },
          ]}
        />
      )}
    </section>
  );
}

export function ErasureView({ id }: { id: string }) {
  const path = `${PATH}/${encodeURIComponent(id)}`;
  const load = async () => (await send<ErasureResponse>({ method: 'GET', path })).erasure;
  const { value: erasure, error } = useLoaded(load, id, RELOAD_MS);
  return (
    <main class="operate" aria-busy={erasure === undefined && error === ''}>
      <header class="operate-head">
        <div>
          <a class="back" href={linkTo('people')}>
            <Icon name="left" />
            People
          </a>
          <h1>Erasure</h1>
          {erasure !== undefined && (
            <p class="quiet">
              {erasure.deep ? `Of a ${erasure.kind}, deep` : `Of a ${erasure.kind}`}, begun{' '}
              {ago(Date.parse(erasure.created_at))}
            </p>
          )}
        </div>
        {erasure?.receipt != null && <Receipt id={id} receipt={erasure.receipt} />}
      </header>
      <Alert>{error}</Alert>
      {erasure !== undefined && <Progress erasure={erasure} />}
    </main>
  );
}

const Receipt = ({ id, receipt }: { id: string; receipt: string }) => (
  <div class="actions">
    <button type="button" class="button" onClick={() => void copyText(receipt, 'Receipt copied')}>
      <Icon name="copy" />
      Copy receipt
    </button>
    <button
      type="button"
      class="button"
      onClick={() => offerFile(new Blob([`${receipt}\n`], { type: 'application/jose' }), `erasure-${id}.jws`)}
    >
      Download receipt
    </button>
  </div>
);

const Progress = ({ erasure: { state, error, result, upkeep } }: { erasure: Erasure }) => (
  <>
    <p role="status">
      <strong>{STATES[state]}</strong>
    </p>
    {error !== null && <p class="bad">{error}</p>}
    {result !== null && (
      <section>
        <h2>What was erased</h2>
        <Outcome result={result} />
      </section>
    )}
    {upkeep !== null && (
      <section>
        <h2>Afterwards</h2>
        <p>{secondLook(upkeep.second_look)}</p>
        <Table
          label="Steps afterwards"
          rows={upkeep.steps}
          keyOf={({ step }) => step}
          columns={[
            { title: 'Step', cells: 'is-text', cell: ({ step }) => step },
            { title: 'Time', class: 'is-number', cell: ({ ms }) => duration(ms) },
            { title: 'Problem', cells: 'is-text', cell: ({ problem }) => problem ?? '-' },
          ]}
        />
      </section>
    )}
  </>
);

function secondLook(rows: number | null): string {
  if (rows === null) return 'A second look was not possible.';
  return rows === 0 ? 'A second look found nothing.' : `A second look found ${counted(rows, 'row')}: they came later.`;
}
