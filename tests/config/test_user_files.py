"""Mistakes in YAML that is not the toolkit's own."""

import pytest


def test_every_mistake_in_a_file_has_its_file_line_and_hint(conf, faults):
    folder = conf(
        {
            "experiment/typos": """\
                # @package _global_
                train:
                  lrr: 0.1
                  gamma: high
                  lr: -1
                vec: {num_envs: 0}
                sed: 3
                """
        }
    )
    place = f"{folder}/experiment/typos.yaml, line"
    assert sorted(faults("--config-dir", folder, "experiment=typos")) == [
        f"{place} 3: no key 'train.lrr'; did you mean 'train.lr'?",
        f"{place} 4: train.gamma is 'high'; it must be a number in [0, 1]",
        f"{place} 5: train.lr is -1.0; it must be a number above 0",
        f"{place} 6: vec.num_envs is 0; it must be a whole number of at least 1",
        f"{place} 7: no key 'sed'; did you mean 'seed'?",
    ]


def test_mistakes_in_files_and_on_the_command_line_come_together(conf, faults):
    folder = conf({"experiment/typo": "# @package _global_\ntrain:\n  lrr: 0.1\n"})
    found = faults("--config-dir", folder, "experiment=typo", "train.horizn=3", "seed=-1", "device=gpu")
    assert len(found) == 4
    assert found[0].startswith(f"{folder}/experiment/typo.yaml, line 3: no key 'train.lrr'")


def test_the_command_line_puts_a_file_right(conf, faults):
    folder = conf({"experiment/wrong": "# @package _global_\ntrain:\n  lr: -1\n"})
    assert faults("--config-dir", folder, "experiment=wrong", "train.lr=0.1") == []
    # A value typed on the command line is not blamed on the file.
    [fault] = faults("--config-dir", folder, "experiment=wrong", "train.lr=-2")
    assert fault.startswith("train.lr is -2.0")


@pytest.mark.parametrize("name", ["local/default", "experiment/broken"])
def test_broken_yaml_names_file_and_line(name, conf, faults):
    folder = conf({name: "# @package _global_\ntrain:\n  lr: [1\n"})
    choice = [] if name.startswith("local") else ["experiment=broken"]
    found = faults("--config-dir", folder, *choice)
    assert len(found) == 1
    assert found[0].startswith(f"{folder}/{name}.yaml, line 4: not valid YAML")


def test_a_typo_in_local_settings(conf, faults):
    folder = conf({"local/default": "# @package _global_\ndevise: cpu\n"})
    [fault] = faults("--config-dir", folder)
    assert fault == f"{folder}/local/default.yaml, line 2: no key 'devise'; did you mean 'device'?"


def test_an_absent_choice_in_a_defaults_list(conf, faults):
    content = "# @package _global_\ndefaults:\n  - override /policy: lstmm\ntrain:\n  lr: 0.1\n"
    folder = conf({"experiment/absent": content})
    [fault] = faults("--config-dir", folder, "experiment=absent")
    assert fault == f"{folder}/experiment/absent.yaml, line 3: no policy 'lstmm'; did you mean 'lstm'?"


def test_a_missing_package_line(conf, faults):
    folder = conf({"experiment/bare": "train:\n  lr: 0.1\n"})
    [fault] = faults("--config-dir", folder, "experiment=bare")
    assert "the file should begin with '# @package _global_'" in fault


def test_a_parameter_of_a_users_env_file(conf, faults, package):
    package("file_env", "class Mine:\n    def __init__(self, num_envs: int, size: int = 3): ...\n")
    folder = conf({"env/mine": "_target_: file_env.Mine\nsice: 4\n"})
    [fault] = faults("--config-dir", folder, "env=mine", "trust=[file_env]")
    place = f"{folder}/env/mine.yaml, line 2"
    assert fault == f"{place}: no key 'env.sice': Mine has no such parameter; did you mean 'env.size'?"


def test_an_untrusted_package_says_how_to_allow_it(conf, faults, package):
    package("far_env", "raise AssertionError('imported without trust')")
    folder = conf({"env/far": "_target_: far_env.Far\n"})
    [fault] = faults("--config-dir", folder, "env=far")
    assert "add trust=[far_env]" in fault


def test_an_absent_config_folder(faults):
    [fault] = faults("--config-dir", "/nowhere")
    assert fault == "the config folder '/nowhere' (command-line) does not exist"


def test_the_value_that_a_config_sweeps_over(conf, faults):
    content = """\
        # @package _global_
        hydra:
          sweeper:
            params:
              train.lr: 0.1,-1
        """
    folder = conf({"experiment/sweep": content})
    [fault] = faults("-m", "--config-dir", folder, "experiment=sweep")
    assert fault.startswith("train.lr is -1.0")
