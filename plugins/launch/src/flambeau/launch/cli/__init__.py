"""The command `flambeau launch`, which is `flambeau-launch` as well.

| verb | what it does |
|---|---|
| run | submit a component |
| status, describe, log, cancel | about one application, given its handle |
| list | the applications of a scheduler |
| runopts, configure | options of schedulers; a configuration file to fill in |
| builtins | all components |
| tracker | what runs left in a tracker |
| doctor | what each scheduler lacks here |

Exit codes: 0 done; 1 failed, an application that failed or is unknown included; 2 used wrongly; 128 + N ended by
signal N, with all that was launched.
"""
