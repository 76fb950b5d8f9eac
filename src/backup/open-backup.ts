/** Opens a backup of either kind. */
import { stat } from 'node:fs/promises';
import { BackupFile } from './backup-file.js';
import type { BackupSource } from './backup-source.js';
import { BackupFolder } from './folder/backup-folder.js';

/** @throws Error that names the path */
export const openBackup = async (path: string): Promise<BackupSource> =>
  (await stat(path)).isDirectory() ? BackupFolder.open(path) : BackupFile.open(path);
