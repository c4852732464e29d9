"""Which of two sides is faster: blocks of runs in symmetric order, and when they suffice to say."""
