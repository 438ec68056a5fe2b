"""The view model: values and words that every renderer shows; nothing here knows a terminal or HTML."""
