#!/usr/bin/perl
# A plugin in Perl: counts the words of a text, and of each line as it goes.
#
# The task comes as JSON on standard input (and in the file TIDEMILL_TASK):
#     {"id": "…", "queue": "…", "attempt": 1, "fence": 7, "plugin": "words", "params": {"text": "…"}}
# The answer goes as JSON into the file TIDEMILL_RESPONSE; progress, if wanted, as lines of JSON to the descriptor
# TIDEMILL_PROGRESS. What is printed is kept as the task's output.
#
# In the settings:  plugins = { words = ["perl", "examples/plugins/word_count.pl"] }
use strict;
use warnings;
use JSON::PP;

my $json = JSON::PP->new->utf8->canonical;
my $task = $json->decode(do { local $/; <STDIN> });
my $text = $task->{params}{text};

open(my $response, '>', $ENV{TIDEMILL_RESPONSE}) or die "no response file: $!";
if (!defined $text) {
    print $response $json->encode({ status => 2, stderr => "params.text is missing\n" });
    exit 1;
}

open(my $progress, '>&=', $ENV{TIDEMILL_PROGRESS}) or die "no progress: $!";
$progress->autoflush(1);
my @lines = split /\n/, $text;
my $words = 0;
for my $at (0 .. $#lines) {
    my $found = () = $lines[$at] =~ /\S+/g;
    $words += $found;
    print "$found\n";
    print $progress $json->encode({ percent => 100 * ($at + 1) / @lines, info => "line " . ($at + 1) }), "\n";
}
print $response $json->encode({ status => 1, result => { words => $words } });
