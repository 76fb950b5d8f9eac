/** Corrects one record of the quarantine, cell by cell as in an import, and stores it. */
import '../import/refused.css';
import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { rawJson, type ReplayResult } from '../../../src/client/index.js';
import type { QuarantinedRecord } from '../../../src/contract/wire/quarantine.js';
import { Corrections } from '../import/corrections.js';
import { RefusedCell } from '../import/refused-cell.js';
import type { RefusedRow } from '../import/stored-journal.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { useLoaded } from '../parts/loaded.js';
import { currentSession } from '../session.js';

interface EditProps {
  readonly record: QuarantinedRecord;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const WIDTH = 280;

export function EditRecordForm({ record: kept, onClose, onDone }: EditProps) {
  const { id, table } = kept;
  const { value: described, error } = useLoaded(() => currentSession().client.describe(table), id);
  const row: RefusedRow = useMemo(() => ({ id, record: { line: 1, json: kept.record }, errors: kept.errors }), [id]);
  const corrections = useMemo(() => {
    const mappings = (described?.columns ?? []).map(({ name, type }) => ({ field: name, column: name, type }));
    const plan = { files: [{ path: '', mappings }], reading: { decimal: '.', quotes: true, skipLines: 0 } as const };
    return new Corrections({ header: { plan }, refused: new Map([[id, row]]) });
  }, [described, row]);
  const found = useSignal<{ column: string; message: string } | null>(null);
  const corrected = corrections.typed.value.has(id) ? corrections.corrected(row) : null;
  const json = corrected !== null && 'record' in corrected ? corrected.record.json : null;
  const options = { table, id, record: rawJson(json ?? '{}') };
  found.value = corrected !== null && 'message' in corrected ? corrected : null;
  return (
    <ActionForm<ReplayResult>
      title={`Correct the record for ${table}`}
      action="Store"
      done={({ inserted, updated, refused }) =>
        refused > 0 ? 'It is refused again' : inserted + updated > 0 ? '1 record stored' : 'Nothing had to be stored'
      }
      request={json === null ? null : { method: 'POST', path: '/api/cdp/quarantine/replay', body: options }}
      run={() => currentSession().client.replayQuarantine(options).then(requireStored)}
      onClose={onClose}
      onDone={onDone}
    >
      <Alert>{error}</Alert>
      {described !== undefined && (
        <div class="quarantine-cells" role="table" aria-label="The record">
          {corrections.columns().map(({ name, type }, i) => (
            <div key={name} class="quarantine-cell" role="row">
              <div role="rowheader">
                <span class="mono">{name}</span> <span class="quiet">{type ?? 'no such column'}</span>
              </div>
              <RefusedCell
                id={`edit-${id}-${i}`}
                corrections={corrections}
                row={row}
                column={name}
                colIndex={2}
                width={WIDTH}
                found={found.value?.column === name ? found.value.message : undefined}
                onMove={(by) => document.getElementById(`edit-${id}-${i + by}`)?.focus()}
              />
            </div>
          ))}
        </div>
      )}
    </ActionForm>
  );
}

/** @throws Error with what is wrong, so that the cells stay to be corrected */
function requireStored(result: ReplayResult): ReplayResult {
  const messages = result.errors.flatMap(({ errors }) => errors.map(({ message }) => message));
  if (result.refused > 0) throw new Error(messages.join('; ') || 'It is refused again');
  return result;
}
