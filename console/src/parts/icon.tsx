/** Line drawings on a grid of 16, in the color of the surrounding text. Names for screen readers are next to them. */
import type { HTMLAttributes } from 'preact';

const PATHS = {
  database:
    'M3 4c0-1.1 2.2-2 5-2s5 .9 5 2-2.2 2-5 2-5-.9-5-2Zm0 0v8c0 1.1 2.2 2 5 2s5-.9 5-2V4M3 8c0 1.1 2.2 2 5 2s5-.9 5-2',
  sun: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM8 1v1.500M8 13.500V15M1 8h1.500M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1',
  moon: 'M13.5 9.500A6 6 0 0 1 6.5 2.500a6 6 0 1 0 7 7Z',
  system: 'M2 3h12v8H2ZM6 14h4M8 11v3',
  leave: 'M6 2H3v12h3M7 8h7M11 5l3 3-3 3',
  keyboard: 'M1.5 4h13v8h-13ZM4 6.500h.01M6.5 6.500h.01M9 6.500h.01M11.5 6.500h.01M5 9.500h6',
  plus: 'M8 3v10M3 8h10',
  close: 'M4 4l8 8M12 4l-8 8',
  play: 'M4.5 3v10l8-5Z',
  stop: 'M4 4h8v8H4Z',
  down: 'M4 6l4 4 4-4',
  right: 'M6 4l4 4-4 4',
  left: 'M10 4l-4 4 4 4',
  search: 'M7 2.500a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.5 10.500l3.5 3.5',
  table: 'M2 3h12v10H2ZM2 6.500h12M6.5 6.500V13',
  view: 'M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8ZM8 6.200a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.600Z',
  history: 'M8 4.500V8l2.5 1.500M2.5 8A5.5 5.5 0 1 0 4 4.200L2.5 5.500M2.5 2.500v3h3',
  star: 'M8 2l1.8 3.8 4.2.5-3.1 2.9.8 4.100L8 11.300l-3.7 2 .8-4.100L2 6.300l4.2-.5Z',
  link: 'M6.5 9.500l3-3M7 4.500l1-1a3 3 0 0 1 4.5 4.500l-1 1M9 11.500l-1 1a3 3 0 0 1-4.5-4.500l1-1',
  download: 'M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.500h11',
  upload: 'M8 10.500V2.500M4.5 6L8 2.5 11.5 6M2.5 13.500h11',
  pause: 'M5 3.500v9M11 3.500v9',
  copy: 'M5.5 5.500h8v8h-8ZM10.5 5.500v-3h-8v8h3',
  paste: 'M5.5 3h-2v11h9V3h-2M5.5 2h5v2.500h-5ZM6 8h4M6 10.500h4',
  edit: 'M3 13l.7-3L11 2.7 13.3 5 6 12.300Z',
  trash: 'M3 4h10M6 4V2.500h4V4M4.5 4l.5 9.500h6l.5-9.5',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.500L13 6M13 2.500V6H9.5',
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    <path d={PATHS[name]} />
  </svg>
);

interface IconButtonProps extends Pick<HTMLAttributes<HTMLButtonElement>, 'title' | 'onClick' | 'aria-expanded'> {
  readonly icon: IconName;
  /** For screen readers, and for the pointer if there is no title. */
  readonly label: string;
  readonly disabled?: boolean;
}

export const IconButton = ({ icon, label, ...button }: IconButtonProps) => (
  <button type="button" class="button is-icon" aria-label={label} title={label} {...button}>
    <Icon name={icon} />
  </button>
);
