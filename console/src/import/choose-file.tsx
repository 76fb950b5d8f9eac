/** The first step: choosing a file, or continuing an unfinished import. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Field } from '../parts/fields.js';
import { Dialog } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
import { ago, count, counted } from '../parts/formats.js';
import { browserFile } from './browser-file.js';
import { FileButton } from './file-button.js';
import { ImportJob } from './job.js';
import { Problem } from './problem.js';
import { StoredJournal } from './stored-journal.js';

interface ChooseFileProps {
  readonly onFile: (file: File) => void;
  readonly onJob: (job: ImportJob) => void;
}

export function ChooseFile({ onFile, onJob }: ChooseFileProps) {
  const isPasting = useSignal(false);
  return (
    <div class="import-page">
      <h1>Import a file</h1>
      <FileButton class="drop" label="Choose a file to import" onFile={onFile}>
        <Icon name="upload" />
        <strong>Drop a file here, choose one, or paste rows</strong>
        <span class="quiet">
          CSV, TSV, NDJSON or JSON, also gzipped, Excel or Parquet. You see its columns and types first; nothing is sent
          before you agree.
        </span>
      </FileButton>
      <div>
        <button type="button" class="button" onClick={() => (isPasting.value = true)}>
          <Icon name="paste" />
          Paste rows
        </button>
      </div>
      <Unfinished onJob={onJob} />
      {isPasting.value && <PasteDialog onFile={onFile} onClose={() => (isPasting.value = false)} />}
    </div>
  );
}

/** Pasted rows become a file. Without a time, the same rows are the same file. */
export const pastedFile = (text: string): File => new File([text], 'pasted.txt', { lastModified: 0 });

function PasteDialog({ onFile, onClose }: Pick<ChooseFileProps, 'onFile'> & { onClose: () => void }) {
  const text = useSignal('');
  return (
    <Dialog title="Paste rows" onClose={onClose}>
      <form
        class="dialog-form"
        onSubmit={(event) => {
          event.preventDefault();
          onClose();
          onFile(pastedFile(text.value));
        }}
      >
        <Field label="Rows from a spreadsheet, or CSV, NDJSON or JSON">
          <textarea
            class="mono"
            rows={12}
            wrap="off"
            spellcheck={false}
            value={text.value}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
        </Field>
        <p class="quiet">
          The first line has the names of the columns. You see types and columns before anything is sent.
        </p>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button is-primary" disabled={text.value.trim() === ''}>
            Preview
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Unfinished({ onJob }: Pick<ChooseFileProps, 'onJob'>) {
  const journals = useSignal<readonly StoredJournal[]>([]);
  const error = useSignal<unknown>(null);
  useEffect(() => void StoredJournal.unfinished().then((all) => (journals.value = all)), []);
  if (journals.value.length === 0) return null;

  const resume = async (journal: StoredJournal, file: File) => {
    const job = new ImportJob(journal);
    const source = browserFile(file);
    try {
      await job.requireFile(source);
      onJob(job);
      void job.run(source);
    } catch (thrown) {
      error.value = thrown;
    }
  };
  const discard = async (journal: StoredJournal) => {
    await journal.remove();
    journals.value = journals.value.filter((other) => other !== journal);
  };

  return (
    <section class="unfinished" aria-labelledby="unfinished">
      <h2 id="unfinished">Unfinished imports</h2>
      <Problem error={error.value} />
      <ul>
        {journals.value.map((journal) => {
          const { header, stored, refused, isAtEnd } = journal;
          const file = header.plan.files[0]?.path ?? '';
          return (
            <li key={header.id}>
              <div class="unfinished-what">
                <strong>{file}</strong> into <code>{header.table}</code>
                <p class="quiet">
                  {counted(stored, 'row')} stored
                  {refused.size > 0 && `, ${count(refused.size)} refused and not corrected yet`} ·{' '}
                  {ago(Date.parse(header.begun))}
                </p>
              </div>
              <div class="unfinished-do">
                {isAtEnd ? (
                  <button type="button" class="button" onClick={() => onJob(new ImportJob(journal))}>
                    <Icon name="edit" />
                    Correct
                  </button>
                ) : (
                  <FileButton
                    class="button"
                    label={`Choose ${file} again to resume`}
                    onFile={(chosen) => void resume(journal, chosen)}
                  >
                    <Icon name="play" />
                    Choose the file again
                  </FileButton>
                )}
                <button
                  type="button"
                  class="button is-quiet"
                  title="Rows already stored are kept"
                  onClick={() => void discard(journal)}
                >
                  Discard<span class="sr-only"> the import of {file}</span>
                </button>
              </div>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
