"""Components: functions that describe applications, for command lines and programs.

A component is a function with types and a docstring that gives an `AppDef`::

    # train.py
    from flambeau.launch import specs

    def trainer(data: str, epochs: int = 1) -> specs.AppDef:
        \"\"\"Trains the model.

Args:
            data: folder of the data
            epochs: how often it is gone through
        \"\"\"
        role = specs.Role("trainer", image="", entrypoint="python", args=["main.py", data, str(epochs)])
        return specs.AppDef("training", [role])

`flambeau launch run train.py:trainer --data /data` runs it. A distribution declares a module of components as an entry
point of the group `flambeau.launch.components`.
"""
