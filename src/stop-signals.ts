/** What asks a process to come to its end: whoever runs services, Ctrl-C, a terminal that is closed. */
export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
