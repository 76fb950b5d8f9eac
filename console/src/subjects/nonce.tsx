/** The nonce of a receipt, which is shown once. */
import { copyText } from '../parts/clipboard.js';
import { Notice } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
import { offerFile } from '../results/download.js';

interface NonceProps {
  /** Of the erasure. */
  readonly id: string;
  readonly nonce: string;
  readonly onClose: () => void;
}

export const Nonce = ({ id, nonce, onClose }: NonceProps) => (
  <Notice title="The nonce of the receipt" onClose={onClose}>
    <p>
      It alone links the receipt to the person, and it is stored nowhere. Send it to the person with the receipt. It is
      not shown again.
    </p>
    <div class="curl-body">
      <pre tabIndex={0}>{nonce}</pre>
      <button type="button" class="button" autofocus onClick={() => void copyText(nonce, 'Nonce copied')}>
        <Icon name="copy" />
        Copy
      </button>
      <button
        type="button"
        class="button"
        onClick={() => offerFile(new Blob([`${nonce}\n`], { type: 'text/plain' }), `erasure-${id}.nonce.txt`)}
      >
        Download
      </button>
    </div>
  </Notice>
);
