"""What live and batch record alike: checks, the signals they fold into, and the notifications those owe."""
