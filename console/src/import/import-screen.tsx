/** Import: the user chooses a file, checks its columns, sends its records, and corrects refused ones. */
import './import.css';
import { effect, signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { browserFile } from './browser-file.js';
import { ChooseFile, pastedFile } from './choose-file.js';
import { Draft } from './draft.js';
import { ImportJob } from './job.js';
import { JobView } from './job-view.js';
import { ImportPlanView } from './import-plan-view.js';
import { StoredJournal } from './stored-journal.js';
import { readCatalog } from '../schema/catalog.js';
import type { ScreenProps } from '../screens.js';
import { session } from '../session.js';

/** The import, which continues while other screens are shown. */
const current = signal<Draft | ImportJob | null>(null);

// Another token may belong to another project.
effect(() => {
  if (session.value !== null) return;
  current.peek()?.leave();
  current.value = null;
});

export function ImportScreen({ path: [table] }: ScreenProps) {
  const isOver = useSignal(false);
  const shown = current.value;
  const isBusy = shown instanceof ImportJob;

  const open = async (file: File) => {
    const source = browserFile(file);
    // A file that cannot be read now is reported by the import.
    const identity = await source.identity().catch(() => '');
    const begun = (await StoredJournal.unfinished()).find(
      ({ isAtEnd, header }) => !isAtEnd && header.plan.files[0]?.identity === identity,
    );
    if (begun !== undefined) {
      const job = new ImportJob(begun);
      current.value = job;
      return job.run(source);
    }
    if (current.peek() instanceof Draft) current.peek()?.leave();
    const draft = new Draft(source, table);
    current.value = draft;
    // Others may have made tables since it was read.
    void readCatalog(true);
    await draft.read();
  };

  useEffect(() => {
    // On the whole page, because usually nothing has the focus.
    const paste = ({ target, clipboardData }: ClipboardEvent) => {
      const isOfField = target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
      if (isOfField || current.peek() instanceof ImportJob) return;
      const [file] = clipboardData?.files ?? [];
      const text = clipboardData?.getData('text/plain') ?? '';
      if (file !== undefined) void open(file);
      else if (text.trim() !== '') void open(pastedFile(text));
    };
    addEventListener('paste', paste);
    return () => removeEventListener('paste', paste);
  }, [table]);

  return (
    <main
      class="import"
      data-over={isOver.value && !isBusy}
      onDragOver={(event) => {
        event.preventDefault();
        isOver.value = true;
      }}
      onDragLeave={() => (isOver.value = false)}
      onDrop={(event) => {
        event.preventDefault();
        isOver.value = false;
        const file = event.dataTransfer?.files[0];
        if (file !== undefined && !isBusy) void open(file);
      }}
    >
      {shown === null && (
        <ChooseFile
          onFile={(file) => void open(file)}
          onJob={(job) => {
            current.value = job;
            if (job.state.value === 'correcting') void job.run();
          }}
        />
      )}
      {shown instanceof Draft && (
        <ImportPlanView
          draft={shown}
          onFile={(file) => void open(file)}
          onBegin={(job, file) => {
            current.value = job;
            void job.run(file);
          }}
          onClose={() => {
            shown.leave();
            current.value = null;
          }}
        />
      )}
      {shown instanceof ImportJob && (
        <JobView key={shown.journal.header.id} job={shown} onClose={() => (current.value = null)} />
      )}
    </main>
  );
}
