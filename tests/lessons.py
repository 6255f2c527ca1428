"""Kinds of faults that people who run trainings have met, and the tests that meet each.

A test is named by its path below ``tests`` and its name. `test_lessons` checks that each is there.
"""

from __future__ import annotations

from typing import NamedTuple


class Lesson(NamedTuple):
    """``kind``: what goes wrong; ``tests``: where dflashctl is tried by it."""

    kind: str
    tests: tuple[str, ...]


LESSONS: dict[int, Lesson] = {
    1: Lesson(
        "a tmux server that was told to go is still going when the next one is to come",
        (
            "agent/test_runs.py::test_restarts_in_a_row_all_succeed",
            "e2e/test_main_job.py::test_restarts_in_a_row_all_succeed",
        ),
    ),
    2: Lesson(
        "tmux takes a name for the beginning of another, and the neighbour's session is gone",
        (
            "agent/test_runs.py::test_a_neighbours_session_and_process_are_left_alone",
            "playbook/test_load.py::test_a_mistake_is_told_with_its_line_and_what_is_allowed",
        ),
    ),
    3: Lesson(
        "children outlive the stop and hold the GPUs",
        (
            "agent/test_runs.py::test_a_stop_ends_the_whole_tree_even_what_ignores_it",
            "agent/test_process.py::test_the_tree_holds_children_that_began_a_session_of_their_own",
            "agent/test_apply.py::test_nothing_starts_while_somebody_holds_a_gpu",
            "e2e/test_gpus.py::test_a_stranger_on_a_gpu_is_named_before_anything_is_stopped",
            "e2e/test_dflash.py::test_when_torchrun_is_killed_nothing_of_the_run_is_left",
        ),
    ),
    4: Lesson(
        "nvidia-smi in a container shows the host's processes, or none",
        (
            "e2e/test_gpus.py::test_the_jobs_own_hold_on_the_gpus_is_no_obstacle_to_its_restart",
            "e2e/test_gpus.py::test_memory_that_nobody_in_sight_holds_refuses_a_start",
            "e2e/test_gpus.py::test_a_monitor_that_holds_no_compute_device_does_not_count",
        ),
    ),
    5: Lesson(
        "nvidia-smi hangs and cannot be killed",
        (
            "agent/test_gpu.py::test_a_driver_that_does_not_answer_is_said_so_within_the_deadline",
            "e2e/test_main_job.py::test_nvidia_smi_that_answers_fails_or_hangs",
        ),
    ),
    6: Lesson(
        "the environment given to tmux is lost when its server runs already",
        (
            "agent/test_runs.py::test_the_environment_is_exactly_what_was_declared",
            "agent/test_runs.py::test_a_later_session_of_the_same_server_inherits_nothing_of_the_run",
            "agent/test_apply.py::test_an_environment_that_is_not_as_declared_fails_the_start",
        ),
    ),
    7: Lesson(
        "a session is made for a command that does not exist, and an exit code gets lost",
        (
            "agent/test_runs.py::test_a_command_that_does_not_exist_is_named",
            "agent/test_runs.py::test_how_a_run_ended_is_recorded",
            "e2e/test_main_job.py::test_a_trainer_that_dies_at_once_fails_the_deploy_with_its_last_lines",
        ),
    ),
    8: Lesson(
        "the socket of tmux is cleaned out of /tmp while the training runs on",
        ("agent/test_runs.py::test_running_is_still_running_when_the_socket_was_cleaned_away",),
    ),
    9: Lesson(
        "without a locale, names and lines beyond ASCII become underscores",
        (
            "e2e/test_main_job.py::test_a_name_and_lines_beyond_ascii_survive_an_empty_environment",
            "agent/test_runs.py::test_output_in_any_encoding_reaches_the_log_byte_for_byte",
            "link/test_bootstrap.py::test_the_agents_words_fix_its_environment",
        ),
    ),
    10: Lesson(
        "attach fails with a terminal that the target does not know",
        (
            "e2e/test_main_job.py::test_attach_shows_the_session_and_detaching_leaves_it",
            "e2e/test_main_job.py::test_an_attached_session_follows_the_size_of_the_window",
            "e2e/test_main_job.py::test_a_read_only_attach_cannot_interrupt_the_trainer",
            "agent/test_observe.py::test_a_terminal_that_is_unknown_over_there_falls_back",
        ),
    ),
    11: Lesson(
        "a dead link is never noticed",
        (
            "link/test_client.py::test_silence_is_a_lost_link",
            "link/test_ssh.py::test_a_frozen_server_holds_no_call_for_ever",
            "e2e/test_watch.py::test_a_lost_link_is_told_with_the_last_known_state_and_recovers",
        ),
    ),
    12: Lesson(
        "much output on both streams at once, and each waits for the other",
        (
            "link/test_ssh.py::test_ten_mebibytes_on_both_streams_at_once_pass",
            "link/test_local.py::test_ten_mebibytes_on_both_streams_at_once_pass",
            "e2e/test_exec.py::test_ten_mebibytes_as_input_and_on_both_streams",
        ),
    ),
    13: Lesson(
        "Ctrl-C leaves the remote command running, or stops the training",
        (
            "e2e/test_exec.py::test_ctrl_c_ends_the_program",
            "e2e/test_exec.py::test_nothing_that_is_deaf_to_ctrl_c_stays",
            "e2e/test_main_job.py::test_an_interrupted_follower_leaves_the_trainer_alone",
            "e2e/test_bad_input.py::test_a_killed_client_leaves_a_whole_transaction",
        ),
    ),
    14: Lesson(
        "unknown and changed host keys are accepted, and the agent of ssh is handed on",
        (
            "e2e/test_bad_input.py::test_an_unknown_host_key_shows_its_fingerprint",
            "e2e/test_bad_input.py::test_a_changed_host_key_shows_both_fingerprints",
            "link/test_accept_new.py::test_a_changed_key_is_never_taken",
            "link/test_let_in.py::test_ssh_agent_stays_here_whatever_sshs_configuration_says",
        ),
    ),
    15: Lesson(
        "words meet a shell on their way through ssh and pct",
        (
            "e2e/test_words.py::test_any_argv_arrives_in_the_container_byte_for_byte",
            "e2e/test_exec.py::test_any_words_and_any_bytes_arrive_as_they_are",
            "e2e/test_main_job.py::test_any_word_and_any_value_reach_the_trainer_byte_for_byte",
            "agent/test_files.py::test_any_name_and_any_content_arrive_byte_for_byte",
        ),
    ),
    16: Lesson(
        "half an upload counts as done, and a full disk looks like a broken transfer",
        (
            "agent/test_files.py::test_an_upload_that_was_cut_is_refused_and_leaves_no_blob",
            "agent/test_full_disk.py::test_a_full_disk_leaves_the_files_in_place_in_a_push",
            "e2e/test_bad_input.py::test_a_full_disk_is_called_so_and_a_retry_works_when_there_is_room",
        ),
    ),
    17: Lesson(
        "a file of the same size that is older is passed over",
        (
            "e2e/test_main_job.py::test_a_changed_file_goes_over_and_an_unchanged_one_does_not",
            "agent/test_history.py::test_a_run_is_on_record_with_all_that_it_was_started_with",
        ),
    ),
    18: Lesson(
        "a clearing with an empty variable or a link removes what it must not",
        (
            "agent/test_checkpoints.py::test_what_may_never_be_cleared_is_named",
            "agent/test_checkpoints.py::test_a_link_that_was_turned_elsewhere_meanwhile_is_not_followed",
            "agent/test_checkpoints.py::test_a_folder_that_holds_a_home_is_guarded",
        ),
    ),
    19: Lesson(
        "a half-written checkpoint is taken for the newest",
        (
            (
                "agent/test_nothing_is_lost.py::"
                "test_no_complete_checkpoint_is_lost_except_by_a_purge_that_was_asked_for"
            ),
            "agent/test_archive.py::test_the_newest_complete_checkpoint_is_never_deleted",
            "agent/test_again.py::test_it_resumes_where_a_complete_checkpoint_is",
        ),
    ),
    20: Lesson(
        "the disk fills up in the middle of an archive",
        (
            "agent/test_full_disk.py::test_a_full_disk_leaves_the_originals_and_no_archive",
            (
                "plan/test_retention.py::"
                "test_an_archive_that_would_not_fit_is_refused_before_anything_is_stopped"
            ),
        ),
    ),
    21: Lesson(
        "the grace is too short, or the signal is the wrong one",
        (
            "agent/test_runs.py::test_a_stop_gives_the_trainer_its_grace_to_save",
            "agent/test_process.py::test_a_process_that_ignores_the_signal_gets_term_after_the_grace",
            "agent/test_supervise.py::test_what_is_left_behind_after_a_stop_has_the_grace_first",
        ),
    ),
    22: Lesson(
        "a hang is not seen, a memory kill leaves no trace, a slow ssh is taken for a failure",
        (
            "agent/test_verdicts.py::test_no_step_for_long_is_a_stall",
            "e2e/test_memory.py::test_a_run_that_the_memory_killer_ended_is_told_as_such",
            "agent/test_observe.py::test_memory_kills_are_counted_in_both_versions_of_the_cgroup",
            "e2e/test_watch.py::test_a_lost_link_is_told_with_the_last_known_state_and_recovers",
        ),
    ),
    23: Lesson(
        "two deploy at once",
        (
            "e2e/test_many_at_once.py::test_twenty_look_while_five_deploy_and_one_of_them_wins",
            "e2e/test_bad_input.py::test_a_second_deploy_at_the_same_time_is_told_who_is_at_work",
            "agent/test_apply.py::test_the_lock_goes_with_its_holder_and_no_run_keeps_it",
        ),
    ),
    24: Lesson(
        "the compute device is missing, or the drivers of host and container differ",
        (
            "e2e/test_gpus.py::test_a_missing_compute_device_refuses_a_start",
            "plan/test_findings.py::test_the_driver_of_the_host_is_compared_with_that_of_the_container",
        ),
    ),
    25: Lesson(
        "libtmux cannot reach a tmux of another machine",
        ("e2e/test_main_job.py::test_the_missions_command_replaces_a_hand_started_run",),
    ),
    26: Lesson(
        "tmux swallows a semicolon at a word's end, and refuses long commands",
        (
            "e2e/test_main_job.py::test_a_command_and_an_environment_longer_than_tmux_takes",
            "e2e/test_main_job.py::test_any_word_and_any_value_reach_the_trainer_byte_for_byte",
        ),
    ),
    27: Lesson(
        "a neighbour's memory kill takes the tmux server, and the trainer with it",
        (
            (
                "e2e/test_memory.py::"
                "test_a_neighbour_whose_memory_kill_takes_the_tmux_server_is_no_wish_to_stop"
            ),
            "agent/test_runs.py::test_when_the_tmux_server_dies_the_run_ends_and_the_next_starts",
        ),
    ),
    28: Lesson(
        "a container can no longer open its GPUs, while the trainer in it trains on",
        (
            (
                "e2e/test_gpus.py::"
                "test_gpus_that_only_the_running_trainer_can_still_use_refuse_its_restart"
            ),
        ),
    ),
    29: Lesson(
        "the pid of a dead run is a stranger's by now",
        (
            "agent/test_runs.py::test_a_record_whose_pid_belongs_to_a_stranger_is_not_a_run",
            "agent/test_runs.py::test_a_run_of_an_earlier_boot_is_over",
            "agent/test_process.py::test_a_stranger_under_a_recorded_pid_is_never_signalled",
        ),
    ),
    30: Lesson(
        "an editor is killed since its command line looks like the trainer's",
        ("agent/test_runs.py::test_a_neighbours_session_and_process_are_left_alone",),
    ),
    31: Lesson(
        "retention by name or time deletes the new run's checkpoints",
        (
            (
                "agent/test_store.py::"
                "test_a_run_that_began_anew_has_the_newest_checkpoint_whatever_its_step"
            ),
            "agent/test_store.py::test_what_only_looks_like_a_checkpoint_is_none",
            "plan/test_retention.py::test_the_rules_add_up",
        ),
    ),
    32: Lesson(
        "after a resume the steps begin anew, and rates are negative",
        (
            "agent/test_series.py::test_no_rate_goes_across_a_counter_that_begins_anew",
            "agent/test_series.py::test_the_time_left_comes_from_the_runs_own_rate",
        ),
    ),
    33: Lesson(
        "in a container `free` fails, or shows the memory of the host",
        (
            "e2e/test_main_job.py::test_a_look_needs_no_figure_of_the_hosts_memory",
            "agent/test_observe.py::test_memory_kills_are_counted_in_both_versions_of_the_cgroup",
        ),
    ),
}
