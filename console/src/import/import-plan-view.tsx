/**
 * The plan of an import: how to read the file, and the column and type of each field. The user can change all of it.
 */
import { useSignal } from '@preact/signals';
import { Field, useCommitted } from '../parts/fields.js';
import { type ApiRequest, Curl, send } from '../parts/api-request.js';
import { IconButton } from '../parts/icon.js';
import { count, counted } from '../parts/formats.js';
import { formatName } from '../../../src/import/format.js';
import type { ImportFile } from '../../../src/import/source.js';
import { readCatalog, tables } from '../schema/catalog.js';
import { API_NAME } from '../schema/fields.js';
import { hasScope } from '../session.js';
import type { Draft } from './draft.js';
import { FieldTable } from './field-table.js';
import { FileButton } from './file-button.js';
import { ImportJob } from './job.js';
import { Problem } from './problem.js';
import { ReadOptionsForm } from './read-options.js';
import { Storing } from './storing.js';
import { StoredJournal } from './stored-journal.js';
import { inConsole } from './words.js';

interface PlanViewProps {
  readonly draft: Draft;
  readonly onFile: (file: File) => void;
  readonly onBegin: (job: ImportJob, file: ImportFile) => void;
  readonly onClose: () => void;
}

export function ImportPlanView({ draft, onFile, onBegin, onClose }: PlanViewProps) {
  const error = useSignal<unknown>(null);
  const isBusy = useSignal(false);
  const { file, table, existing, planned, reading } = draft;
  const requests = requestsOf(draft);
  const target = useCommitted(table.value, (name) => {
    table.value = name;
    void draft.read();
  });

  const begin = async () => {
    error.value = null;
    isBusy.value = true;
    try {
      for (const request of requests) await send(request);
      if (requests.length > 0) void readCatalog(true);
      onBegin(new ImportJob(await StoredJournal.create(table.value, draft.plan)), file);
    } catch (thrown) {
      error.value = thrown;
      // A part of it may have been done, or somebody else has made the table.
      await readCatalog(true);
      await draft.read();
    } finally {
      isBusy.value = false;
    }
  };

  return (
    <form
      class="import-page"
      aria-label="Import"
      onSubmit={(event) => {
        event.preventDefault();
        if (draft.isReady.value && !isBusy.value) void begin();
      }}
    >
      <header class="import-head">
        <div class="import-title">
          <h1>{file.path}</h1>
          <Reading draft={draft} />
        </div>
        <div class="import-actions">
          <FileButton class="button" label="Choose another file" onFile={onFile}>
            Other file
          </FileButton>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </div>
      </header>
      <div class="import-target">
        <Field label="Into table">
          <input
            class="mono"
            list="import-tables"
            required
            {...API_NAME}
            autocomplete="off"
            spellcheck={false}
            {...target}
          />
        </Field>
        <datalist id="import-tables">
          {tables.value
            ?.filter(({ kind }) => kind === 'table')
            .map(({ name }) => (
              <option key={name} value={name} />
            ))}
        </datalist>
        <TargetNote draft={draft} />
      </div>
      <ReadOptionsForm draft={draft} />
      <Problem error={draft.error.value} />
      {planned.value?.warnings.map((warning) => (
        <p key={warning} class="import-warning">
          {inConsole(warning)}
        </p>
      ))}
      {planned.value !== null && <FieldTable draft={draft} isBusy={reading.value !== null} />}
      {planned.value !== null && <Storing draft={draft} />}
      <Problem error={error.value} />
      {planned.value !== null && (
        <footer class="import-foot">
          <div class="import-requests">
            {requests.map((request) => (
              <Curl key={request.path + JSON.stringify(request.body)} request={request} />
            ))}
          </div>
          <button type="submit" class="button is-primary" disabled={!draft.isReady.value || isBusy.value}>
            {existing.value === undefined ? 'Create the table and import' : 'Import'}
          </button>
        </footer>
      )}
    </form>
  );
}

function Reading({ draft: { reading, planned } }: { draft: Draft }) {
  const now = reading.value;
  if (now !== null) {
    const share = now.share === null ? '' : `${Math.round(now.share * 100)} %, `;
    return (
      <p class="quiet" role="status" aria-busy="true">
        Reading it for its types: {share}
        {counted(now.rows, 'record')}
      </p>
    );
  }
  const format = planned.value?.plan.files[0]?.format;
  return <p class="quiet">{format === undefined ? ' ' : sentence(formatName(format))}</p>;
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function TargetNote({ draft: { existing, planned, newColumns } }: { draft: Draft }) {
  if (planned.value === null) return null;
  const table = existing.value;
  if (table === undefined)
    return hasScope('schema:write') ? (
      <p class="import-note">A new table</p>
    ) : (
      <p class="import-note bad">There is no such table, and this token may not create one</p>
    );
  const added = newColumns.value.length;
  return (
    <p class="import-note">
      A table with about {count(table.approximate_rows ?? 0)} rows
      {added > 0 && hasScope('schema:write') && `, which gets ${counted(added, 'new column')}`}
    </p>
  );
}

/** The requests that are sent before the first record. */
function requestsOf({ table, existing, newColumns, planned }: Draft): ApiRequest[] {
  if (planned.value === null) return [];
  const path = '/api/cdp/schema/table';
  if (existing.value === undefined)
    return [{ method: 'POST', path, body: { table_name: table.value, columns: newColumns.value } }];
  return newColumns.value.map((body) => ({ method: 'POST', path: `${path}/${table.value}/column`, body }));
}
