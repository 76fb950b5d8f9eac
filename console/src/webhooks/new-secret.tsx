/** A new secret of a webhook, which is shown once. */
import { copyText } from '../parts/clipboard.js';
import { Notice } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';

export const NewSecret = ({ secret, onClose }: { secret: string; onClose: () => void }) => (
  <Notice title="The new secret" onClose={onClose}>
    <p>Give it to the endpoint, which verifies signatures with it. It is not shown again.</p>
    <div class="curl-body">
      <pre tabIndex={0}>{secret}</pre>
      <button type="button" class="button" autofocus onClick={() => void copyText(secret, 'Secret copied')}>
        <Icon name="copy" />
        Copy
      </button>
    </div>
  </Notice>
);
