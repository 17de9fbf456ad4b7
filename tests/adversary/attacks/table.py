"""The attacks, each the name of a function: left.py, reached.py. systemd/SECURITY.md says of each
what stops it."""

# What a trainer leaves in its storage, its code and its home for root to come upon; for each plan
# what at the trainer's first start, and what at its next one.
LEFT = {
    # With files to copy: without any, the guard has nothing to put behind such a link.
    "links": (("moves_our_folder_away", "puts_links_in_the_place_of_our_files",
               "leaves_setuid_checkpoints", "leaves_programs_in_its_home_and_its_code"),
              ("puts_links_in_the_place_of_our_files", "leaves_setuid_checkpoints")),
    "files": (("leaves_setuid_checkpoints", "gives_second_names_to_others_files",
               "leaves_a_setuid_shell", "writes_a_record_that_names_root"),
              ("makes_its_home_a_link",)),
    "pipes": (("leaves_names_that_terminals_obey", "leaves_four_terabytes_of_nothing",
               "leaves_a_header_of_many_megabytes", "leases_and_locks_its_files"),
              ("puts_pipes_in_the_place_of_files", "makes_its_log_a_link")),
    "races": (("changes_names_while_root_works",), ("puts_links_in_the_place_of_folders",)),
}

# What it does by itself, in this order, and then trains to the end. Of the idle connections and of
# the processes there are some left while it trains.
REACHED = (
    "uses_what_it_inherits",
    "holds_locks_in_the_run_directory",
    "reads_the_run_directory",
    "makes_names_in_the_run_directory",
    "writes_elsewhere",
    "reads_others_secrets",
    "reads_disks",
    "speaks_as_the_guard_and_the_supervisor",
    "floods_the_agent",
    "speaks_to_process_1",
    "speaks_in_spotters_name_to_the_journal",
    "asks_the_metadata_service",
    "guesses_the_token_of_the_keys",
    "holds_idle_connections",
    "asks_for_its_own_keys",
    "uses_its_keys_against_the_job",
    "touches_processes_of_root",
    "writes_programs_that_root_runs",
    "commands_process_1",
    "logs_in_on_loopback",
    "has_others_start_its_programs",
    "runs_programs_that_give_rights",
    "moves_into_another_control_group",
    "takes_names_of_abstract_sockets",
    "raises_its_limits",
    "makes_the_kernel_prefer_it",
    "has_processes_without_end",
    "makes_many_files",
    "leaves_processes_that_go_on",
)
# No attack: while all that is tried, the endpoint still answers who has the token.
ALLOWED = {"asks_for_its_own_keys": "200"}
