/** A button that opens a file chooser. */
import type { ComponentChildren } from 'preact';

interface FileButtonProps {
  readonly class: string;
  readonly label: string;
  readonly onFile: (file: File) => void;
  readonly children: ComponentChildren;
}

export const FileButton = ({ class: name, label, onFile, children }: FileButtonProps) => (
  <label class={`file-button ${name}`}>
    <input
      type="file"
      class="sr-only"
      aria-label={label}
      onChange={({ currentTarget }) => {
        const file = currentTarget.files?.[0];
        // Allows choosing the same file again.
        currentTarget.value = '';
        if (file !== undefined) onFile(file);
      }}
    />
    {children}
  </label>
);
