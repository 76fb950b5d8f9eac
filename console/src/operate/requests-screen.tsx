/** What runs in the databases now, of all projects, and a way to end it. */
import './operate.css';
import { useSignal } from '@preact/signals';
import type { RunningRequest } from '../../../src/contract/wire/requests.js';
import { counted, duration } from '../parts/numbers.js';
import { linkTo } from '../route.js';
import { ActionForm } from '../parts/action-form.js';
import { cancelRequest, listRequests } from './admin-api.js';
import { useLoaded } from '../parts/loaded.js';

const EVERY_MS = 2_000;

export function RequestsScreen() {
  const { value: requests, error, reload } = useLoaded(listRequests, '', EVERY_MS);
  const canceling = useSignal<RunningRequest | null>(null);
  return (
    <main class="operate" aria-busy={requests === undefined}>
      <header class="operate-head">
        <div>
          <h1>Running requests</h1>
          <p class="quiet">
            {requests === undefined ? '' : `${counted(requests.length, 'request')} now, the oldest first`}
          </p>
        </div>
      </header>
      <p class="bad" role="alert">
        {error}
      </p>
      {requests?.length === 0 && (
        <div class="empty">
          <h2>Nothing is running</h2>
          <p>
            Requests that use a project&rsquo;s database, or wait for their turn, appear here while they last. With
            several instances of the service, each shows its own.
          </p>
        </div>
      )}
      {requests !== undefined && requests.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Running requests">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">Operation</th>
                <th scope="col">Project</th>
                <th scope="col" class="is-number">
                  Age
                </th>
                <th scope="col">Token</th>
                <th scope="col" class="wide-only">
                  Address
                </th>
                <th scope="col">
                  <span class="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {requests.map((request) => (
                <tr key={`${request.project} ${request.request_id}`}>
                  <th scope="row" class="mono" title={request.request_id}>
                    {request.operation}
                  </th>
                  <td class="is-text">
                    <a href={linkTo('projects', request.project)}>{request.project}</a>
                  </td>
                  <td class="is-number">{duration(request.duration_ms)}</td>
                  <td class="is-text" title={request.token_id}>
                    {request.token_name ?? request.token_id}
                  </td>
                  <td class="wide-only mono">{request.address}</td>
                  <td class="is-end">
                    <button
                      type="button"
                      class="button is-quiet"
                      aria-label={`Cancel ${request.operation} in ${request.project}`}
                      onClick={() => (canceling.value = request)}
                    >
                      Cancel
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {canceling.value !== null && (
        <ActionForm
          title="Cancel a request"
          action="Cancel the request"
          keep="Keep it running"
          done="Request canceled"
          isDangerous
          request={cancelRequest(canceling.value.project, canceling.value.request_id)}
          onClose={() => (canceling.value = null)}
          onDone={() => void reload()}
        >
          <p>
            Postgres stops the <code>{canceling.value.operation}</code> of {canceling.value.project}, and nothing of it
            is stored. Its caller gets the error <code>query_timeout</code>.
          </p>
        </ActionForm>
      )}
    </main>
  );
}
