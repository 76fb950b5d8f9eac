/**
 * The dialog for every schema change: its fields, the request that will be sent, a dry run, and the service's response.
 */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { CdpError, type Impact, type ValueCount } from '../../../src/client/index.js';
import { type ApiRequest, Curl } from '../parts/api-request.js';
import { Dialog } from '../parts/dialog.js';
import { counted, duration } from '../parts/formats.js';
import { say } from '../parts/announcements.js';
import { readCatalog } from './catalog.js';

export interface SchemaRequest {
  readonly method: 'POST' | 'PUT' | 'DELETE';
  /** The parts after `/api/cdp/schema/`. */
  readonly path: readonly string[];
  readonly body?: object;
  readonly query?: string;
}

const toApi = ({ path, query, ...request }: SchemaRequest): ApiRequest => ({
  ...request,
  path: `/api/cdp/schema/${path.map(encodeURIComponent).join('/')}${query ? `?${query}` : ''}`,
});

export interface ChangeProps {
  readonly title: string;
  /** The label of the button, such as "Create table". */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** null: the fields are incomplete. */
  readonly request: SchemaRequest | null;
  /** @param isDryRun whether everything is rolled back; the response then contains the impact */
  readonly send: (isDryRun: boolean) => Promise<{ impact?: Impact; message: string }>;
  /** Called before the dialog closes. */
  readonly onDone?: () => void;
  readonly onClose: () => void;
  readonly onValues?: (values: readonly ValueCount[]) => void;
  readonly children?: ComponentChildren;
}

export function ChangeDialog(props: ChangeProps) {
  const { title, action, isDangerous, request, send, onDone, onClose, onValues, children } = props;
  const error = useSignal<CdpError | null>(null);
  const impact = useSignal<Impact | null>(null);
  const isBusy = useSignal(false);

  const run = async (isDryRun: boolean) => {
    error.value = impact.value = null;
    isBusy.value = true;
    try {
      const response = await send(isDryRun);
      if (isDryRun) impact.value = response.impact ?? null;
      else {
        say(sentence(response.message));
        onDone?.();
        onClose();
        void readCatalog(true);
      }
    } catch (thrown) {
      error.value = thrown instanceof CdpError ? thrown : new CdpError('unexpected_answer', String(thrown));
      onValues?.(error.value.values);
    } finally {
      isBusy.value = false;
    }
  };

  return (
    <Dialog title={title} onClose={onClose}>
      <form
        class="dialog-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (request !== null) void run(false);
        }}
      >
        {children}
        <Refusal error={error.value} />
        {impact.value !== null && <DryRunImpact impact={impact.value} />}
        {request !== null && <Curl request={toApi(request)} />}
        <div class="dialog-actions">
          <button type="button" class="button is-quiet" onClick={onClose}>
            Cancel
          </button>
          <button
            type="button"
            class="button"
            disabled={request === null || isBusy.value}
            onClick={() => void run(true)}
          >
            Try without changing anything
          </button>
          <button
            type="submit"
            class={isDangerous ? 'button is-danger' : 'button is-primary'}
            disabled={request === null || isBusy.value}
          >
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function Refusal({ error }: { error: CdpError | null }) {
  if (error === null) return null;
  const others = error.errors.filter(({ message }) => message !== error.message);
  return (
    <div class="outcome-error" role="alert">
      <p>
        <strong>{error.message}</strong>
      </p>
      {others.length > 0 && (
        <ul>
          {others.map(({ message, hint }, i) => (
            <li key={i}>
              {message} {hint}
            </li>
          ))}
        </ul>
      )}
      {error.hint !== undefined && <p>{error.hint}</p>}
      <p class="quiet">
        Nothing was changed. <code>{error.code}</code>
      </p>
    </div>
  );
}

function DryRunImpact({ impact }: { impact: Impact }) {
  const written = impact.rows.map(
    ({ table, inserted, updated, deleted }) => `${counted(inserted + updated + deleted, 'row')} of ${table}`,
  );
  const facts = [
    written.length > 0 ? `It would write ${written.join(', ')}.` : '',
    impact.rewritten.length > 0 ? `It would rewrite ${impact.rewritten.join(', ')}.` : '',
    impact.sequences !== undefined ? `It used ${impact.sequences.join(', ')}, which Postgres does not set back.` : '',
    `It took ${duration(impact.duration_ms)}, and was rolled back.`,
  ];
  return (
    <p class="dry-run" role="status">
      <strong>This would work.</strong> {facts.filter(Boolean).join(' ')}
    </p>
  );
}
